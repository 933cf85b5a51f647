/* dense
 *   input  X: f32[6]
 *   weight W: f32[6][10]
 *   weight bias: f32[10]
 *   output Y: f32[10]
 * Call dense_prepare once with the weights; `prepared` has
 * dense_prepared_size() bytes, aligned like malloc's.
 * `workspace` has DENSE_WORKSPACE_BYTES bytes, aligned like
 * malloc's; its contents need not survive a call.
 */
#ifndef DENSE_H
#define DENSE_H

#include <stddef.h>
#include <stdint.h>

#define DENSE_WORKSPACE_BYTES 0

#ifdef __cplusplus
extern "C" {
#endif

size_t dense_prepared_size(void);
void dense_prepare(const float *W, const float *bias, void *prepared);
void dense(const float *X, const void *prepared, float *Y, void *workspace);

#ifdef __cplusplus
}
#endif

#endif
