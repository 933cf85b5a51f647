EXAMPLES = \
	examples/argmax.te examples/attention.te examples/avgpool.te \
	examples/avgpool_s8.te examples/blur.te examples/bmm.te \
	examples/conv2d.te examples/conv2d_s8.te examples/conv2d_transpose.te \
	examples/depthwise.te examples/dot.te examples/dp4a.te \
	examples/embed.te examples/fir_q15.te examples/gemm.te \
	examples/gemm_s8.te examples/hgemm.te examples/hgemm_ep.te \
	examples/hgemm_mma.te examples/hgemm_plain.te examples/layernorm.te \
	examples/lstm_cell.te examples/matmul.te examples/matmul_ep.te \
	examples/matmul_tn.te examples/maxpool.te examples/quant.te \
	examples/sdot.te examples/softmax.te examples/stencil3.te \
	examples/vnni.te examples/wino23.te examples/wino43.te examples/winograd.te
exampledir = $(docdir)/examples
dist_example_DATA = $(EXAMPLES)
