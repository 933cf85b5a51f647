# Speed, as ratios within one run; not part of `make check`.
EXTRA_DIST += bench/README.md bench/run bench/gemm.c bench/matmul_tn.sched
EXTRA_PROGRAMS = bench/gemm
bench_gemm_SOURCES = bench/gemm.c
CLEANFILES += $(EXTRA_PROGRAMS)

bench: tcc-tune bench/gemm
	$(SHELL) $(srcdir)/bench/run ./tcc-tune ./bench/gemm
.PHONY: bench
