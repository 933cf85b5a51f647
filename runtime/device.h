/* Devices of OpenCL and CUDA: which there are; and kernels run on one of
 * OpenCL.
 *
 * The libraries are loaded when they are wanted, and drivers crash, hang and
 * start threads: all of this happens in child processes alone.
 */
#ifndef TT_DEVICE_H
#define TT_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_MAX_DEVICES 64

struct tt_device {
  char name[128], driver[128]; /* driver: its version */
  bool cpu;
  int64_t units;    /* processors */
  int64_t warp;     /* threads that run in step */
  int64_t threads;  /* of a block, at most */
  int64_t items[3]; /* in each dimension */
  int64_t shared;   /* bytes that a block may share */
  bool scratchpad;  /* and these are memory of their own */
  int64_t memory;   /* bytes */
  int64_t lanes;    /* floats of a vector that it prefers */
  int sm;           /* of CUDA: 10 times the compute capability; 0 */
};

/* main() calls this with the runner's: lists the devices and returns its exit
 * status when the arguments say so, else -1. */
int tt_device_main(int argc, char **argv);

/* The devices of this machine, at most `max`, in the order of their numbers,
 * of OpenCL or of CUDA; asked by a child.  -1 and *error, to be freed, where
 * its library is missing or has none. */
int tt_devices(bool cuda, struct tt_device *out, int max, char **error);

/* What NVIDIA built most of that architecture for servers, or one before it,
 * has: chips.c.  Other fields are 0. */
struct tt_device tt_cuda_typical(int sm);

/* ---- in the child of a candidate ---- */

/* A file of kernels begins with lines of the protocol:
 *
 *   kernel name= prepare= global=X,Y,Z local=X,Y,Z args=...
 *   source
 *
 * and the rest is OpenCL C.  Arguments are numbers of buffers. */
struct tt_cl;

/* Opens device number `device` and builds the file.  NULL and a message. */
struct tt_cl *tt_cl_load(int device, const char *path, char *message,
                         size_t size);
/* Makes the next buffer, of so many bytes between watched zones, holding
 * `data` or (NULL) 0xff. */
bool tt_cl_buffer(struct tt_cl *, int64_t bytes, const void *data,
                  char *message, size_t size);
bool tt_cl_write(struct tt_cl *, int buffer, const void *data);
bool tt_cl_read(struct tt_cl *, int buffer, void *data);
/* Are the zones around the buffer as they were? */
bool tt_cl_intact(struct tt_cl *, int buffer);
/* Runs the kernels that prepare, or the others; false: see tt_cl_error(). */
bool tt_cl_run(struct tt_cl *, bool prepare);
/* Seconds that all runs so far took by the device's own clock. */
double tt_cl_seconds(const struct tt_cl *);
const char *tt_cl_error(const struct tt_cl *);

#endif
