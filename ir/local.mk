noinst_LIBRARIES += ir/libir.a
ir_libir_a_SOURCES = \
	ir/arena.c ir/arena.h \
	ir/diag.c ir/diag.h ir/diag.def \
	ir/ir.h ir/expr.c ir/stmt.c ir/program.c \
	ir/types.c ir/types.h ir/types.def
