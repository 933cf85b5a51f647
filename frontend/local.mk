noinst_LIBRARIES += frontend/libfrontend.a
frontend_libfrontend_a_SOURCES = \
	frontend/ast.c frontend/ast.h frontend/dump_ast.c \
	frontend/bounds.c frontend/consts.c frontend/elab.c \
	frontend/fold.c frontend/frontend.c frontend/frontend.h \
	frontend/intrin.c frontend/lower.c frontend/parse.h \
	frontend/parser.y frontend/ranges.c frontend/reduce.c \
	frontend/resolve.c frontend/scanner.l frontend/sema.h \
	frontend/symbols.c frontend/types.c frontend/witness.c
BUILT_SOURCES += frontend/parser.h
