/* What self-tests and benchmarks have in common, whatever they run on; private
 * to codegen/ctest.c and codegen/gpuhost.c.
 *
 * In these programs v0, v1, ... are the parameters by position in the program
 * and r0, ... what the reference makes of the outputs among them.
 */
#ifndef TT_CODEGEN_CTEST_H
#define TT_CODEGEN_CTEST_H

#include "codegen/cprint.h"

extern const char tt_ctest_from_bf16[]; /* what checks of bf16 need */
extern const char tt_ctest_timer[];     /* what tt_ctest_timing() needs */

/* Lines of a comment: the parameters with their types and shapes. */
void tt_ctest_shapes(const struct tt_program *, struct tt_sb *out);
/* The plain loops as static functions NAME_plain...; po->name gets the name. */
const char *tt_ctest_plain(struct tt_arena *, const struct tt_program *,
                           const struct tt_nest *plain,
                           const struct tt_codegen_options *,
                           struct tt_codegen_options *po,
                           struct tt_code_sizes *, struct tt_sb *out);
/* The functions that the arrays need; `memory`: there are others, too; `lines`:
 * arrays begin with a line of the cache. */
void tt_ctest_tools(struct cprinter *, const struct tt_program *, bool memory,
                    bool lines);
/* Declare and fill the arrays; free them. */
void tt_ctest_arrays(struct cprinter *, const struct tt_program *);
void tt_ctest_free(struct cprinter *, const struct tt_program *);
/* Adds ", v0, v3": those of the role. */
void tt_ctest_args(struct tt_sb *, const struct tt_program *, enum tt_role,
                   char prefix);
/* Count in `wrong` what differs between v and r. */
void tt_ctest_checks(struct cprinter *, const struct tt_program *);
bool tt_ctest_has_bf16(const struct tt_program *);
/* Time calls on the CPU and print a line. */
void tt_ctest_timing(struct cprinter *, const char *name, const char *args,
                     double flops);

#endif
