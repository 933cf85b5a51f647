/* What is known of CUDA's architectures without a device: a table, in the order
 * of their numbers.
 *
 * Processors are those of one product each, as the architecture's white paper
 * or the product's data sheet by NVIDIA counts its "SMs"; the bytes that a
 * block can share are in the CUDA C++ Programming Guide, "Technical
 * Specifications per Compute Capability".
 */
#include "config.h"

#include "runtime/device.h"

#include <stdio.h>

static const struct {
  int sm;
  const char *name;
  int64_t units, kilobytes;
} chips[] = {
    {50, "GeForce GTX 750 Ti", 5, 48},
    {52, "Tesla M40", 24, 48},
    {53, "Jetson TX1", 2, 48},
    {60, "Tesla P100", 56, 48},
    {61, "Tesla P40", 30, 48},
    {62, "Jetson TX2", 2, 48},
    {70, "V100", 80, 96},
    {72, "Jetson AGX Xavier", 8, 96},
    {75, "T4", 40, 64},
    {80, "A100", 108, 163},
    {86, "A40", 84, 99},
    {87, "Jetson AGX Orin", 16, 163},
    {89, "L40", 142, 99},
    {90, "H100 SXM", 132, 227},
    {100, "B200", 148, 227},
    {120, "GeForce RTX 5090", 170, 99},
};

struct tt_device
tt_cuda_typical(int sm)
{
  struct tt_device d = {.sm = sm};
  for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
    if (i == 0 || chips[i].sm <= sm) {
      snprintf(d.name, sizeof d.name, "%s", chips[i].name);
      d.units = chips[i].units;
      d.shared = chips[i].kilobytes << 10;
    }
  return d;
}
