# Speed, as ratios within one run; not part of `make check`.
EXTRA_DIST += bench/README.md bench/run bench/table bench/dnnl.c bench/roof.c \
	bench/peers/setup $(bench_works)
bench_works = bench/work/conv_nchw.te bench/work/conv_nhwc.te \
	bench/work/conv_s8.te bench/work/gemm_u8s8.te \
	bench/work/winograd23.te bench/work/winograd43.te
EXTRA_PROGRAMS = bench/bench
bench_bench_SOURCES = bench/bench.c
CLEANFILES += $(EXTRA_PROGRAMS) bench/results.tsv

# make bench BENCHFLAGS='--group=resnet-nchw --time=30'
bench: tcc-tune bench/bench
	$(SHELL) $(srcdir)/bench/run $(BENCHFLAGS)
.PHONY: bench
