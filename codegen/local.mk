noinst_LIBRARIES += codegen/libcodegen.a
codegen_libcodegen_a_SOURCES = \
	codegen/codegen.h codegen/internal.h codegen/util.c codegen/lower.c \
	codegen/vectorize.h codegen/vectorize.c codegen/vexpr.c \
	codegen/vlegal.c codegen/unroll.c codegen/promote.c \
	codegen/dead.c codegen/gather.c codegen/hoist.c codegen/nameloads.c \
	codegen/partition.c codegen/transpose.c codegen/plan.h codegen/plan.c \
	codegen/cprint.h codegen/cnames.c codegen/cpart.c codegen/crows.c \
	codegen/ctrans.c codegen/ctypes.c \
	codegen/cexpr.c codegen/caccess.c \
	codegen/cbase.c codegen/cintrin.c codegen/dot.h codegen/dot.c codegen/cdot.c \
	codegen/cvec.c codegen/chelp.c codegen/cconv.c codegen/cstmt.c \
	codegen/cprint.c \
	codegen/gpu.h codegen/gpu.c codegen/gpushare.c codegen/gpubank.c codegen/gpubar.c codegen/gpucopy.c \
	codegen/gpumake.c codegen/gpupipe.c \
	codegen/gpulang.h codegen/gpulang.c codegen/gpuprint.c \
	codegen/gpuhost.c codegen/gpuentry.c \
	codegen/ctest.h codegen/ctest.c codegen/vmath.h codegen/vmath.c
