noinst_LIBRARIES += ir/libir.a
ir_libir_a_SOURCES = \
	ir/affine.c \
	ir/arena.c ir/arena.h \
	ir/bounds.h \
	ir/diag.c ir/diag.h ir/diag.def \
	ir/dump.c \
	ir/eval.c ir/eval.h \
	ir/expr.c ir/ir.h ir/binop.def ir/fn.def \
	ir/factor.c \
	ir/interp.c ir/interp.h ir/interp_nest.c ir/interp_program.c \
	ir/interval.c \
	ir/intrin.c \
	ir/linear.c \
	ir/passes.h \
	ir/program.c \
	ir/prove.c \
	ir/residue.c \
	ir/simplify.c ir/simplify.h ir/simplify_index.c ir/simplify_stmt.c \
	ir/stmt.c \
	ir/sum.h \
	ir/types.c ir/types.h ir/types.def \
	ir/values.c ir/values.h \
	ir/verify.c ir/verify.h ir/verify_expr.c
