# The command line: what main.c is made of, apart from the tuner's library.
noinst_LIBRARIES += tuner/libcli.a
tuner_libcli_a_SOURCES = \
	tuner/banner.c tuner/banner.h \
	tuner/emit.c tuner/inputs.c tuner/inputs.h tuner/job.c tuner/job.h \
	tuner/job_device.c tuner/job_search.c \
	tuner/machine.c tuner/machine.h \
	tuner/options.c tuner/options.h tuner/options.def \
	tuner/output.c tuner/output.h \
	tuner/report.c tuner/report.h \
	tuner/ui.c tuner/ui.h

bin_PROGRAMS += tcc-tune
tcc_tune_SOURCES = tuner/main.c
tcc_tune_LDADD = tuner/libcli.a tuner/libtuner.a frontend/libfrontend.a \
	codegen/libcodegen.a schedule/libschedule.a runtime/libruntime.a \
	ir/libir.a $(XGBOOST_LIBS) $(CBLAS_LIBS) $(SQLITE_LIBS)

# The tuner: models, searches, the loop, the history.
noinst_LIBRARIES += tuner/libtuner.a
tuner_libtuner_a_CPPFLAGS = $(AM_CPPFLAGS) $(SQLITE_CFLAGS)
tuner_libtuner_a_SOURCES = \
	tuner/model.h tuner/model.c tuner/gbt.c tuner/ensemble.c tuner/transfer.c tuner/random.h \
	tuner/treegru.h tuner/treegru.c tuner/treenet.c tuner/models.c \
	tuner/history.h tuner/history_db.h tuner/history.c \
	tuner/history_admin.c tuner/history_json.c tuner/hash.c \
	tuner/measure.h tuner/measure_parts.h tuner/measure.c \
	tuner/measure_open.c tuner/measure_device.c \
	tuner/outcome.c tuner/outcome.def \
	tuner/reference.c tuner/reference.h tuner/tolerance.c tuner/tolerance.h \
	tuner/context.c tuner/context.h tuner/features.c tuner/features.h \
	tuner/feature_parts.h tuner/feature_tree.c \
	tuner/search.c tuner/search.h tuner/search_ga.c tuner/search_pick.c tuner/search_parts.h \
	tuner/search_set.c tuner/search_set.h \
	tuner/experience.c tuner/experience.h \
	tuner/trials.c tuner/trials.h tuner/recorder.c tuner/recorder.h \
	tuner/finalists.c tuner/finalists.h \
	tuner/pretrained.c tuner/pretrained.h tuner/pretrained.def \
	tuner/tune.c tuner/tune.h tuner/tune_run.c tuner/tune_run.h \
	tuner/gain.c tuner/gain.h tuner/tune_search.c tuner/tune_budget.c tuner/tune_final.c

bin_PROGRAMS += tcc-log
tcc_log_SOURCES = tuner/log_main.c
tcc_log_LDADD = tuner/libtuner.a ir/libir.a $(SQLITE_LIBS)
