/* Inside children that load OpenCL or CUDA: see runtime/device.h. */
#ifndef TT_OPENCL_H
#define TT_OPENCL_H

#include "runtime/device.h"

/* Lists the devices; -1 and a message where there are none. */
int tt_cl_list(struct tt_device *out, int max, char *message, size_t size);
int tt_cuda_list(struct tt_device *out, int max, char *message, size_t size);

#endif
