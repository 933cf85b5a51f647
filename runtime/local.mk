noinst_LIBRARIES += runtime/libruntime.a
runtime_libruntime_a_SOURCES = \
	runtime/build.c runtime/build.h \
	runtime/candidate.c runtime/candidate.h \
	runtime/check.c runtime/check.h \
	runtime/chips.c runtime/cpus.c runtime/cpus.h runtime/cuda.c \
	runtime/clapi.h runtime/device.c runtime/device.h \
	runtime/guard.c runtime/guard.h \
	runtime/opencl.c runtime/opencl.h \
	runtime/process.c runtime/process.h \
	runtime/protocol.c runtime/protocol.h \
	runtime/runner.c runtime/runner.h runtime/runner_main.c \
	runtime/target.c runtime/target.h \
	runtime/timing.c runtime/timing.h \
	runtime/words.c runtime/words.h
