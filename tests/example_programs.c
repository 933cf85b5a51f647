/* Owns the table of examples.  Sources are found by $abs_top_srcdir. */
#include "config.h"

#include "tests/example_programs.h"

#include <stdlib.h>

#include "ir/passes.h"

const struct example tt_examples[] = {
    {"argmax.te", {{0}}},
    {"matmul.te", {{"M", "37"}, {"N", "50"}, {"K", "21"}}},
    {"matmul_tn.te", {{"M", "33"}, {"N", "70"}, {"K", "21"}}},
    {"matmul_ep.te", {{"M", "33"}, {"N", "30"}, {"K", "20"}}},
    {"gemm.te", {{"M", "33"}, {"N", "30"}, {"K", "20"}}},
    {"dot.te", {{"N", "10000"}}},
    {"dot.te", {{"N", "70001"}}},
    {"matmul.te", {{"M", "9"}, {"N", "20"}, {"K", "1024"}}},
    {"conv2d.te", {{"C", "3"}, {"K", "10"}, {"H", "13"}, {"W", "18"}}},
    {"winograd.te", {{"C", "9"}, {"K", "10"}, {"H", "13"}, {"W", "10"}}},
    {"blur.te", {{"H", "30"}, {"W", "40"}}},
    {"attention.te", {{"H", "2"}, {"L", "16"}, {"S", "16"}}},
    {"embed.te", {{"L", "20"}, {"V", "100"}, {"D", "70"}}},
    {"softmax.te", {{"B", "12"}, {"D", "300"}}},
    {"layernorm.te", {{"B", "12"}, {"D", "300"}}},
    {"maxpool.te", {{"C", "5"}, {"H", "23"}, {"W", "30"}}},
    {"avgpool.te", {{"C", "5"}, {"H", "23"}, {"W", "30"}}},
    {"avgpool_s8.te", {{0}}},
    {"depthwise.te", {{"C", "5"}, {"H", "23"}, {"W", "30"}}},
    {"conv2d_s8.te",
     {{"H", "9"},
      {"W", "10"},
      {"CI", "8"},
      {"CO", "12"},
      {"OH", "9"},
      {"OW", "10"}}},
    {"conv2d_transpose.te", {{"C", "9"}, {"H", "7"}, {"W", "6"}, {"K", "10"}}},
    {"fir_q15.te", {{"N", "500"}, {"T", "20"}}},
    {"lstm_cell.te", {{"I", "130"}, {"H", "40"}}},
    {"stencil3.te", {{"N", "3000"}}},
    {"bmm.te", {{"B", "3"}, {"M", "33"}, {"N", "70"}, {"K", "21"}}},
    {"dp4a.te", {{"M", "64"}, {"N", "128"}, {"K", "64"}}},
    {"hgemm.te", {{"M", "128"}, {"N", "128"}, {"K", "64"}}},
    {"hgemm_plain.te", {{"M", "33"}, {"N", "20"}, {"K", "24"}}},
    {"hgemm_ep.te", {{"M", "33"}, {"N", "20"}, {"K", "24"}}},
    {"gemm_s8.te", {{"M", "33"}, {"N", "20"}, {"K", "24"}}},
    {"hgemm_mma.te", {{"M", "128"}, {"N", "128"}, {"K", "32"}}},
};
const int tt_nexamples = sizeof tt_examples / sizeof *tt_examples;

struct tt_program *
tt_example_program(struct tt_arena *arena, const struct example *e, bool whole)
{
  const char *top = getenv("abs_top_srcdir");
  struct tt_frontend_options o = {.defines = e->defines};
  while (!whole && o.ndefines < TT_EXAMPLE_DEFINES &&
         e->defines[o.ndefines].name)
    o.ndefines++;
  const char *path =
      tt_arena_printf(arena, "%s/examples/%s", top ? top : "..", e->file);
  struct tt_frontend_result f =
      tt_compile_file(arena, tt_diags_new(arena), path, &o, false);
  if (!f.program)
    return NULL;
  tt_solve_congruences(f.program);
  tt_factor_sums(f.program, false);
  return f.program;
}
