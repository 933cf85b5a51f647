noinst_LIBRARIES += schedule/libschedule.a
schedule_libschedule_a_SOURCES = \
	schedule/accumulate.c \
	schedule/analysis.c schedule/analysis.h \
	schedule/annotate.c \
	schedule/bind.c \
	schedule/gpu_default.c schedule/gpu_tensor.c schedule/gpu_tiles.c schedule/gpu_reduce.c \
	schedule/cache.c \
	schedule/choices.c \
	schedule/finish.c \
	schedule/instruct.c \
	schedule/loops.c \
	schedule/lower.c schedule/lower.h \
	schedule/nests.c \
	schedule/place.c \
	schedule/prefetch.c \
	schedule/products.c \
	schedule/reciprocal.c \
	schedule/region.c \
	schedule/rfactor.c \
	schedule/relayout.c \
	schedule/schedule.h \
	schedule/shrink.c \
	schedule/space.c schedule/space.h schedule/space_apply.c \
	schedule/space_gpu.c schedule/space_gpu.h schedule/space_gpu_apply.c \
	schedule/space_chain.c schedule/space_parts.c \
	schedule/space_transform.c \
	schedule/staging.c \
	schedule/state.c schedule/state.h \
	schedule/tensorize.c \
	schedule/text.c
