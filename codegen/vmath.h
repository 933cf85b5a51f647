/* Transcendental functions over vectors in the emitted C; private to
 * codegen/c*.c. */
#ifndef TT_CODEGEN_VMATH_H
#define TT_CODEGEN_VMATH_H

#include "codegen/cprint.h"

/* The name of a function of `lanes` elements of the type, which is printed
 * once; one lane: of a scalar, with the bits that a lane of a vector gets.
 * NULL: there is none (another type or function, or no GNU vectors). */
const char *tt_c_vmath(struct cprinter *, enum tt_fn, enum tt_dtype, int lanes);

#endif
