# Speed, as ratios within one run; not part of `make check`.
EXTRA_DIST += bench/README.md bench/run bench/table bench/dnnl.c bench/roof.c \
	bench/peers/setup bench/peers/metaschedule bench/metaschedule \
	bench/gpu/run bench/gpu/library.py bench/gpu/turns.c $(bench_works) \
	bench/paper/README.md bench/paper/run bench/paper/summary bench/paper/plot \
	bench/paper/tables.md bench/paper/curves.tsv bench/paper/cost.svg bench/paper/models.svg \
	bench/paper/table.svg bench/paper/transfer.svg $(bench_pretrain)
bench_works = bench/work/conv_nchw.te bench/work/conv_nhwc.te \
	bench/work/conv_s8.te bench/work/gemm_u8s8.te bench/work/hgemm.te \
	bench/work/winograd23.te bench/work/winograd43.te
bench_pretrain = bench/pretrain/collect bench/pretrain/list \
	bench/pretrain/heldout bench/pretrain/box.te \
	bench/pretrain/complex.te bench/pretrain/contract.te \
	bench/pretrain/conv1d.te bench/pretrain/conv3d.te \
	bench/pretrain/covariance.te bench/pretrain/distance.te \
	bench/pretrain/gated.te bench/pretrain/groupnorm.te \
	bench/pretrain/jacobi.te bench/pretrain/minplus.te \
	bench/pretrain/mttkrp.te bench/pretrain/perceptron.te \
	bench/pretrain/rmsproduct.te bench/pretrain/rowsum.te \
	bench/pretrain/turn.te
EXTRA_PROGRAMS += bench/bench bench/models bench/pretrain/train \
	bench/pretrain/zero
bench_bench_SOURCES = bench/bench.c
# make bench/models && bench/models examples/matmul.te HISTORY.db
bench_models_SOURCES = bench/models.c bench/order.c bench/order.h
bench_models_LDADD = tuner/libtuner.a frontend/libfrontend.a \
	codegen/libcodegen.a schedule/libschedule.a runtime/libruntime.a \
	ir/libir.a $(XGBOOST_LIBS) $(CBLAS_LIBS) $(SQLITE_LIBS)
# The studies of the paper: see bench/paper/README.md.  A test runs it.
check_PROGRAMS += bench/paper/study
bench_paper_study_SOURCES = bench/paper/study.c bench/paper/study.h \
	bench/paper/memo.c bench/paper/table.c
bench_paper_study_LDADD = tuner/libcli.a $(bench_models_LDADD)
# What makes and judges the model that ships; see bench/README.md.
bench_pretrain_train_SOURCES = bench/pretrain/train.c \
	bench/order.c bench/order.h \
	bench/pretrain/works.c bench/pretrain/works.h
bench_pretrain_train_LDADD = $(bench_models_LDADD)
bench_pretrain_zero_SOURCES = bench/pretrain/zero.c \
	bench/pretrain/walk.c bench/pretrain/walk.h \
	bench/pretrain/works.c bench/pretrain/works.h
bench_pretrain_zero_LDADD = $(bench_models_LDADD)
CLEANFILES += $(EXTRA_PROGRAMS) bench/results.tsv

# make bench BENCHFLAGS='--group=resnet-nchw --time=30'
bench: tcc-tune bench/bench
	$(SHELL) $(srcdir)/bench/run $(BENCHFLAGS)
.PHONY: bench
