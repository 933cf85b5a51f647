noinst_LIBRARIES += frontend/libfrontend.a
frontend_libfrontend_a_SOURCES = \
	frontend/ast.c frontend/ast.h frontend/dump_ast.c \
	frontend/bounds.c frontend/built_in.c frontend/consts.c frontend/elab.c \
	frontend/fold.c frontend/frontend.c frontend/frontend.h \
	frontend/intrin.c frontend/lower.c frontend/parse.h \
	frontend/parser.y frontend/ranges.c frontend/reduce.c \
	frontend/resolve.c frontend/scanner.l frontend/sema.h \
	frontend/symbols.c frontend/types.c frontend/witness.c
BUILT_SOURCES += frontend/parser.h

# Instructions that come with the tool, as lines of string literals.
EXTRA_DIST += frontend/intrins/cuda.te frontend/intrins/opencl.te
SUFFIXES = .te .inc
.te.inc:
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $< >$@.new && mv $@.new $@
BUILT_IN = frontend/intrins/cuda.inc frontend/intrins/opencl.inc
BUILT_SOURCES += $(BUILT_IN)
CLEANFILES += $(BUILT_IN)
frontend/built_in.$(OBJEXT): $(BUILT_IN)
