/* What is used of OpenCL's interface, so that its headers are not needed to
 * build, nor its library to run what does without.  Names and numbers are
 * those of the standard, version 1.2. */
#ifndef TT_CLAPI_H
#define TT_CLAPI_H

#include <stddef.h>
#include <stdint.h>

typedef struct clobject *clhandle; /* platforms, devices, contexts, ... */

enum {
  CL_SUCCESS_ = 0,
  CL_MEM_READ_WRITE_ = 1,
  CL_MEM_COPY_HOST_PTR_ = 1 << 5,
  CL_BUFFER_REGION_ = 0x1220,
  CL_QUEUE_PROFILING_ = 1 << 1,
  CL_DEVICE_CPU_ = 1 << 1,
  CL_BUILD_LOG_ = 0x1183,
  CL_PROFILING_START_ = 0x1282,
  CL_PROFILING_END_ = 0x1283,
  CL_DEVICE_TYPE_ = 0x1000,
  CL_DEVICE_UNITS_ = 0x1002,
  CL_DEVICE_GROUP_ = 0x1004,
  CL_DEVICE_ITEMS_ = 0x1005,
  CL_DEVICE_FLOATS_ = 0x100a,
  CL_DEVICE_MEMORY_ = 0x101f,
  CL_DEVICE_LOCAL_TYPE_ = 0x1022,
  CL_DEVICE_LOCAL_ = 0x1023,
  CL_DEVICE_NAME_ = 0x102b,
  CL_DRIVER_VERSION_ = 0x102d,
  CL_DEVICE_WARP_NV_ = 0x4003,       /* cl_nv_device_attribute_query */
  CL_DEVICE_WAVEFRONT_AMD_ = 0x4043, /* cl_amd_device_attribute_query */
  CL_PLATFORM_NAME_ = 0x0902
};
#define CL_DEVICE_ALL_ UINT64_C(0xffffffff)

struct cl_region_ {
  size_t origin, size;
};

/* result, name, parameters */
#define TT_CL_FUNCTIONS(F)                                                     \
  F(int32_t, clGetPlatformIDs, (uint32_t, clhandle *, uint32_t *))             \
  F(int32_t, clGetDeviceIDs,                                                   \
    (clhandle, uint64_t, uint32_t, clhandle *, uint32_t *))                    \
  F(int32_t, clGetDeviceInfo, (clhandle, uint32_t, size_t, void *, size_t *))  \
  F(clhandle, clCreateContext,                                                 \
    (const intptr_t *, uint32_t, const clhandle *, void *, void *, int32_t *)) \
  F(clhandle, clCreateCommandQueue, (clhandle, clhandle, uint64_t, int32_t *)) \
  F(clhandle, clCreateProgramWithSource,                                       \
    (clhandle, uint32_t, const char **, const size_t *, int32_t *))            \
  F(int32_t, clBuildProgram,                                                   \
    (clhandle, uint32_t, const clhandle *, const char *, void *, void *))      \
  F(int32_t, clGetProgramBuildInfo,                                            \
    (clhandle, clhandle, uint32_t, size_t, void *, size_t *))                  \
  F(clhandle, clCreateKernel, (clhandle, const char *, int32_t *))             \
  F(int32_t, clSetKernelArg, (clhandle, uint32_t, size_t, const void *))       \
  F(clhandle, clCreateBuffer, (clhandle, uint64_t, size_t, void *, int32_t *)) \
  F(clhandle, clCreateSubBuffer,                                               \
    (clhandle, uint64_t, uint32_t, const void *, int32_t *))                   \
  F(int32_t, clEnqueueWriteBuffer,                                             \
    (clhandle, clhandle, uint32_t, size_t, size_t, const void *, uint32_t,     \
     const clhandle *, clhandle *))                                            \
  F(int32_t, clEnqueueReadBuffer,                                              \
    (clhandle, clhandle, uint32_t, size_t, size_t, void *, uint32_t,           \
     const clhandle *, clhandle *))                                            \
  F(int32_t, clEnqueueNDRangeKernel,                                           \
    (clhandle, clhandle, uint32_t, const size_t *, const size_t *,             \
     const size_t *, uint32_t, const clhandle *, clhandle *))                  \
  F(int32_t, clFinish, (clhandle))                                             \
  F(int32_t, clGetEventProfilingInfo,                                          \
    (clhandle, uint32_t, size_t, void *, size_t *))                            \
  F(int32_t, clReleaseEvent, (clhandle))

struct cl_api {
#define FIELD(result, name, params) result(*name) params;
  TT_CL_FUNCTIONS(FIELD)
#undef FIELD
};

#endif
