noinst_LIBRARIES += frontend/libfrontend.a
frontend_libfrontend_a_SOURCES = \
	frontend/ast.c frontend/ast.h frontend/dump_ast.c \
	frontend/frontend.h frontend/parse.h \
	frontend/parser.y frontend/scanner.l
BUILT_SOURCES += frontend/parser.h
