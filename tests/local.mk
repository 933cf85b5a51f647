# Tests: programs with cmocka, and .tap scripts that run tcc-tune.  No test
# sees the user's own history.
TEST_EXTENSIONS = .tap
TAP_LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) \
	$(top_srcdir)/build-aux/tap-driver.sh
TAP_LOG_COMPILER = $(SHELL)
AM_TESTS_ENVIRONMENT = \
	abs_top_srcdir='$(abs_top_srcdir)'; export abs_top_srcdir; \
	abs_top_builddir='$(abs_top_builddir)'; export abs_top_builddir; \
	TT_VERSION='$(PACKAGE_VERSION)'; export TT_VERSION; \
	HOME='$(abs_top_builddir)/tests/scratch/home'; export HOME; \
	XDG_CACHE_HOME="$$HOME/cache"; export XDG_CACHE_HOME;

EXTRA_DIST += tests/lib.sh tests/fake_cuda.h tests/cases $(TAP_TESTS)
TAP_TESTS = tests/layering.tap tests/golden.tap tests/outputs.tap \
	tests/examples.tap tests/gpu.tap tests/gpu_host.tap tests/gpu_tune.tap \
	tests/tune.tap tests/several.tap tests/man.tap tests/log.tap \
	tests/paper.tap
TESTS += $(TAP_TESTS)

# A process that keeps a history locked, for tune.tap.
check_PROGRAMS += tests/hold_lock
tests_hold_lock_SOURCES = tests/hold_lock.c
tests_hold_lock_CPPFLAGS = $(AM_CPPFLAGS) $(SQLITE_CFLAGS)
tests_hold_lock_LDADD = $(SQLITE_LIBS)

# Kernels for nvcc, outside of `make check`: see the script.
EXTRA_PROGRAMS += tests/gpu_kernels
tests_gpu_kernels_SOURCES = tests/gpu_kernels.c \
	tests/cuda_file.c tests/cuda_file.h \
	tests/example_programs.c tests/example_programs.h \
	tests/random_schedule.c tests/random_schedule.h
tests_gpu_kernels_LDADD = tests/libexec.a tests/librandom.a frontend/libfrontend.a \
	schedule/libschedule.a codegen/libcodegen.a ir/libir.a
EXTRA_DIST += tests/check-nvcc
check-nvcc: tcc-tune tests/gpu_kernels
	$(top_srcdir)/tests/check-nvcc $(CHECK_NVCC_FLAGS) || test $$? -eq 77
.PHONY: check-nvcc

clean-local: clean-scratch
clean-scratch:
	-test ! -d tests/scratch || chmod -R u+rwx tests/scratch
	-rm -rf tests/scratch
.PHONY: clean-scratch

# ---- the command line ----------------------------------------------------
if HAVE_CMOCKA
check_PROGRAMS += tests/test_options
TESTS += tests/test_options
tests_test_options_SOURCES = tests/test_options.c
tests_test_options_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_options_LDADD = tuner/libcli.a runtime/libruntime.a ir/libir.a \
	$(CMOCKA_LIBS)
check_PROGRAMS += tests/test_choices
TESTS += tests/test_choices
tests_test_choices_SOURCES = tests/test_choices.c
tests_test_choices_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_choices_LDADD = schedule/libschedule.a ir/libir.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/test_ui
TESTS += tests/test_ui
tests_test_ui_SOURCES = tests/test_ui.c
tests_test_ui_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_ui_LDADD = tuner/libcli.a tuner/libtuner.a ir/libir.a \
	$(CMOCKA_LIBS)
endif

# ---- vector forms of exp, log, ...
if HAVE_CMOCKA
check_PROGRAMS += tests/test_vmath
TESTS += tests/test_vmath
tests_test_vmath_SOURCES = tests/test_vmath.c
tests_test_vmath_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_vmath_LDADD = codegen/libcodegen.a ir/libir.a $(CMOCKA_LIBS) \
	-ldl -lm
endif

# ---- the history ---------------------------------------------------------
if HAVE_CMOCKA
check_PROGRAMS += tests/test_history
TESTS += tests/test_history
tests_test_history_SOURCES = tests/test_history.c
tests_test_history_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS) $(SQLITE_CFLAGS)
tests_test_history_LDADD = tuner/libtuner.a ir/libir.a $(CMOCKA_LIBS) \
	$(SQLITE_LIBS)
endif

# runtime: processes, builds, the runner
if HAVE_CMOCKA
check_PROGRAMS += tests/test_runtime tests/test_runner
TESTS += tests/test_runtime tests/test_runner
tests_test_runtime_SOURCES = tests/test_runtime.c tests/building.h
tests_test_runtime_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_runtime_LDADD = runtime/libruntime.a ir/libir.a $(CMOCKA_LIBS)
tests_test_runner_SOURCES = tests/test_runner.c tests/building.h
tests_test_runner_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_runner_LDADD = runtime/libruntime.a ir/libir.a $(CMOCKA_LIBS)
endif

# candidates on a device of OpenCL, where there is one
if HAVE_CMOCKA
check_PROGRAMS += tests/test_device
TESTS += tests/test_device
tests_test_device_SOURCES = tests/test_device.c tests/building.h
tests_test_device_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_device_LDADD = runtime/libruntime.a ir/libir.a $(CMOCKA_LIBS)
endif

# measurement: schedules to times
if HAVE_CMOCKA
check_PROGRAMS += tests/test_measure
TESTS += tests/test_measure
tests_test_measure_SOURCES = tests/test_measure.c
tests_test_measure_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_measure_LDADD = tuner/libtuner.a codegen/libcodegen.a \
	schedule/libschedule.a runtime/libruntime.a ir/libir.a $(CMOCKA_LIBS)
endif

# ---- schedules
if HAVE_CMOCKA
check_PROGRAMS += tests/test_schedule
TESTS += tests/test_schedule
tests_test_schedule_SOURCES = tests/test_schedule.c \
	tests/random_schedule.c tests/random_schedule.h
tests_test_schedule_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_test_schedule_LDADD = tests/librandom.a schedule/libschedule.a \
	ir/libir.a $(CMOCKA_LIBS)
endif

# ---- the IR --------------------------------------------------------------
check_LIBRARIES += tests/librandom.a
tests_librandom_a_SOURCES = tests/random_program.c tests/random_program.h \
	tests/random_value.c tests/random_value.h

if HAVE_CMOCKA
check_PROGRAMS += tests/test_ir
TESTS += tests/test_ir
tests_test_ir_SOURCES = tests/test_ir.c
tests_test_ir_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_ir_LDADD = ir/libir.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/test_verify
TESTS += tests/test_verify
tests_test_verify_SOURCES = tests/test_verify.c
tests_test_verify_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_verify_LDADD = ir/libir.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/test_random_program
TESTS += tests/test_random_program
tests_test_random_program_SOURCES = tests/test_random_program.c
tests_test_random_program_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_random_program_LDADD = tests/librandom.a ir/libir.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/test_simplify
TESTS += tests/test_simplify
tests_test_simplify_SOURCES = tests/test_simplify.c
tests_test_simplify_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_simplify_LDADD = ir/libir.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/test_factor
TESTS += tests/test_factor
tests_test_factor_SOURCES = tests/test_factor.c
tests_test_factor_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_factor_LDADD = tests/librandom.a frontend/libfrontend.a \
	schedule/libschedule.a ir/libir.a $(CMOCKA_LIBS) -lm
check_PROGRAMS += tests/test_interp
TESTS += tests/test_interp
tests_test_interp_SOURCES = tests/test_interp.c
tests_test_interp_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_interp_LDADD = ir/libir.a $(CMOCKA_LIBS)
endif

# ---- the tuner -----------------------------------------------------------
if HAVE_CMOCKA
check_PROGRAMS += tests/test_search
TESTS += tests/test_search
tests_test_search_SOURCES = tests/test_search.c
tests_test_search_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_search_LDADD = tuner/libtuner.a ir/libir.a $(CMOCKA_LIBS) \
	$(XGBOOST_LIBS) $(CBLAS_LIBS)
check_PROGRAMS += tests/test_models
TESTS += tests/test_models
tests_test_models_SOURCES = tests/test_models.c
tests_test_models_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_models_LDADD = tuner/libtuner.a ir/libir.a $(CMOCKA_LIBS) \
	$(XGBOOST_LIBS) $(CBLAS_LIBS)
check_PROGRAMS += tests/test_features
TESTS += tests/test_features
tests_test_features_SOURCES = tests/test_features.c \
	tests/product.c tests/product.h \
	tests/random_schedule.c tests/random_schedule.h
tests_test_features_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_features_LDADD = tests/librandom.a tuner/libtuner.a \
	schedule/libschedule.a ir/libir.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/test_pretrained
TESTS += tests/test_pretrained
tests_test_pretrained_SOURCES = tests/test_pretrained.c \
	tests/fake_tuning.c tests/fake_tuning.h \
	tests/product.c tests/product.h
tests_test_pretrained_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_pretrained_LDADD = tuner/libtuner.a frontend/libfrontend.a \
	codegen/libcodegen.a schedule/libschedule.a runtime/libruntime.a \
	ir/libir.a $(CMOCKA_LIBS) $(XGBOOST_LIBS) $(CBLAS_LIBS) $(SQLITE_LIBS)
check_PROGRAMS += tests/test_tune
TESTS += tests/test_tune
tests_test_tune_SOURCES = tests/test_tune.c \
	tests/fake_tuning.c tests/fake_tuning.h \
	tests/product.c tests/product.h
tests_test_tune_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS) $(SQLITE_CFLAGS)
tests_test_tune_LDADD = tuner/libtuner.a frontend/libfrontend.a \
	codegen/libcodegen.a schedule/libschedule.a runtime/libruntime.a \
	ir/libir.a $(CMOCKA_LIBS) $(XGBOOST_LIBS) $(CBLAS_LIBS) $(SQLITE_LIBS)
check_PROGRAMS += tests/test_experience
TESTS += tests/test_experience
tests_test_experience_SOURCES = tests/test_experience.c \
	tests/fake_tuning.c tests/fake_tuning.h \
	tests/product.c tests/product.h
tests_test_experience_CPPFLAGS = $(tests_test_tune_CPPFLAGS)
tests_test_experience_LDADD = $(tests_test_tune_LDADD)
check_PROGRAMS += tests/test_gain
TESTS += tests/test_gain
tests_test_gain_SOURCES = tests/test_gain.c
tests_test_gain_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_gain_LDADD = $(tests_test_tune_LDADD)
endif

# ---- the frontend
EXTRA_DIST += tests/errors
if HAVE_CMOCKA
check_PROGRAMS += tests/test_frontend
TESTS += tests/test_frontend
tests_test_frontend_SOURCES = tests/test_frontend.c \
	tests/compile.c tests/compile.h
tests_test_frontend_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_frontend_LDADD = frontend/libfrontend.a ir/libir.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/test_hostile
TESTS += tests/test_hostile
tests_test_hostile_SOURCES = tests/test_hostile.c \
	tests/compile.c tests/compile.h
tests_test_hostile_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_hostile_LDADD = frontend/libfrontend.a ir/libir.a $(CMOCKA_LIBS)
endif
check_PROGRAMS += tests/fuzz_frontend
TESTS += tests/fuzz_frontend
tests_fuzz_frontend_SOURCES = tests/fuzz_frontend.c
tests_fuzz_frontend_LDADD = frontend/libfrontend.a ir/libir.a

# ---- code generation -----------------------------------------------------
EXTRA_DIST += tests/golden
if HAVE_CMOCKA
check_LIBRARIES += tests/libexec.a
tests_libexec_a_SOURCES = tests/exec_c.c tests/exec_c.h
check_LIBRARIES += tests/libnest.a
tests_libnest_a_SOURCES = tests/nest.c tests/nest.h
tests_libnest_a_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
check_PROGRAMS += tests/test_gpu
TESTS += tests/test_gpu
tests_test_gpu_SOURCES = tests/test_gpu.c \
	tests/random_pairs.c tests/random_pairs.h \
	tests/random_schedule.c tests/random_schedule.h
tests_test_gpu_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_gpu_LDADD = tests/libexec.a tests/librandom.a schedule/libschedule.a \
	codegen/libcodegen.a ir/libir.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/test_gpu_roads
TESTS += tests/test_gpu_roads
tests_test_gpu_roads_SOURCES = tests/test_gpu_roads.c \
	tests/example_programs.c tests/example_programs.h \
	tests/random_pairs.c tests/random_pairs.h \
	tests/random_schedule.c tests/random_schedule.h
tests_test_gpu_roads_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_gpu_roads_LDADD = tests/libexec.a tests/librandom.a \
	frontend/libfrontend.a schedule/libschedule.a \
	codegen/libcodegen.a ir/libir.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/test_staging
TESTS += tests/test_staging
tests_test_staging_SOURCES = tests/test_staging.c \
	tests/gpu_made.c tests/gpu_made.h \
	tests/gpu_trace.c tests/gpu_trace.h \
	tests/random_schedule.c tests/random_schedule.h
tests_test_staging_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_staging_LDADD = tests/libexec.a tests/librandom.a \
	schedule/libschedule.a codegen/libcodegen.a ir/libir.a $(CMOCKA_LIBS)
PTX_SOURCES = tests/exec_ptx.c tests/exec_ptx.h \
	tests/cuda_file.c tests/cuda_file.h tests/ptx.h tests/ptx_internal.h \
	tests/ptx_parse.c tests/ptx_value.c tests/ptx_ops.c \
	tests/ptx_memory.c tests/ptx_warp.c \
	tests/ptx_run.c
check_PROGRAMS += tests/test_ptx
TESTS += tests/test_ptx
tests_test_ptx_SOURCES = tests/test_ptx.c $(PTX_SOURCES) \
	tests/compile.c tests/compile.h \
	tests/example_programs.c tests/example_programs.h \
	tests/random_pairs.c tests/random_pairs.h \
	tests/random_schedule.c tests/random_schedule.h
tests_test_ptx_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_ptx_LDADD = tests/libexec.a tests/librandom.a \
	frontend/libfrontend.a schedule/libschedule.a \
	codegen/libcodegen.a ir/libir.a $(CMOCKA_LIBS)
if HAVE_OPENCL
check_PROGRAMS += tests/test_opencl
TESTS += tests/test_opencl
tests_test_opencl_SOURCES = tests/test_opencl.c \
	tests/example_programs.c tests/example_programs.h \
	tests/random_schedule.c tests/random_schedule.h
tests_test_opencl_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS) $(OPENCL_CFLAGS)
tests_test_opencl_LDADD = tests/libexec.a tests/librandom.a \
	frontend/libfrontend.a schedule/libschedule.a \
	codegen/libcodegen.a ir/libir.a $(CMOCKA_LIBS) $(OPENCL_LIBS)
endif
check_PROGRAMS += tests/test_tensorize
TESTS += tests/test_tensorize
tests_test_tensorize_SOURCES = tests/test_tensorize.c \
	tests/compile.c tests/compile.h \
	tests/example_programs.c tests/example_programs.h \
	tests/random_pairs.c tests/random_pairs.h \
	tests/random_schedule.c tests/random_schedule.h
tests_test_tensorize_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_tensorize_LDADD = tests/libexec.a frontend/libfrontend.a \
	schedule/libschedule.a codegen/libcodegen.a ir/libir.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/test_instructions
TESTS += tests/test_instructions
tests_test_instructions_SOURCES = tests/test_instructions.c \
	tests/compile.c tests/compile.h \
	tests/gpu_made.c tests/gpu_made.h \
	tests/gpu_trace.c tests/gpu_trace.h $(PTX_SOURCES)
tests_test_instructions_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_instructions_LDADD = tests/libexec.a frontend/libfrontend.a \
	schedule/libschedule.a codegen/libcodegen.a ir/libir.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/test_tensor_copies
TESTS += tests/test_tensor_copies
tests_test_tensor_copies_SOURCES = tests/test_tensor_copies.c \
	tests/compile.c tests/compile.h \
	tests/gpu_made.c tests/gpu_made.h \
	tests/gpu_trace.c tests/gpu_trace.h
tests_test_tensor_copies_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_tensor_copies_LDADD = tests/libexec.a frontend/libfrontend.a \
	schedule/libschedule.a codegen/libcodegen.a ir/libir.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/test_operators
TESTS += tests/test_operators
tests_test_operators_SOURCES = tests/test_operators.c
tests_test_operators_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_operators_LDADD = tests/libnest.a tests/libexec.a \
	codegen/libcodegen.a ir/libir.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/test_codegen
TESTS += tests/test_codegen
tests_test_codegen_SOURCES = tests/test_codegen.c
tests_test_codegen_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_codegen_LDADD = tests/libnest.a tests/libexec.a \
	codegen/libcodegen.a ir/libir.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/test_programs
TESTS += tests/test_programs
tests_test_programs_SOURCES = tests/test_programs.c
tests_test_programs_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_programs_LDADD = tests/libnest.a tests/libexec.a \
	codegen/libcodegen.a schedule/libschedule.a ir/libir.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/test_narrow
TESTS += tests/test_narrow
tests_test_narrow_SOURCES = tests/test_narrow.c
tests_test_narrow_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_narrow_LDADD = tests/libnest.a tests/libexec.a \
	codegen/libcodegen.a ir/libir.a $(CMOCKA_LIBS) -ldl -lm
check_PROGRAMS += tests/test_random_code
TESTS += tests/test_random_code
tests_test_random_code_SOURCES = tests/test_random_code.c \
	tests/random_pairs.c tests/random_pairs.h \
	tests/random_schedule.c tests/random_schedule.h
tests_test_random_code_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_test_random_code_LDADD = tests/libexec.a tests/librandom.a \
	codegen/libcodegen.a schedule/libschedule.a ir/libir.a $(CMOCKA_LIBS)
endif
