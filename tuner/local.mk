# The command line: what main.c is made of, apart from the tuner's library.
noinst_LIBRARIES += tuner/libcli.a
tuner_libcli_a_SOURCES = \
	tuner/banner.c tuner/banner.h \
	tuner/options.c tuner/options.h tuner/options.def \
	tuner/output.c tuner/output.h
