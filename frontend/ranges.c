/* The range of every index that has none of its own: the dimensions of the
 * bare subscripts in which it stands, which must agree.
 */
#include "config.h"

#include "frontend/sema.h"

static const char *
origin_text(struct tt_sema *s, const struct tt_axis *axis)
{
  if (!axis->from)
    return "its range";
  return tt_arena_printf(s->arena, "%s dimension %d", axis->from->name,
                         axis->from_dim);
}

/* The index stands bare in dimension `dim` of the access. */
static void
bare(struct tt_sema *s, struct tt_axis *axis, const struct tt_rx *load, int dim)
{
  int64_t extent = load->sym->tensor->dims[dim];
  const struct tt_rx *sub = load->args[dim];

  if (axis->given)
    return;
  if (!axis->ranged) {
    axis->ranged = true;
    axis->extent = extent;
    axis->from = load->sym;
    axis->from_dim = dim;
    axis->from_span = sub->span;
    return;
  }
  if (axis->extent == extent || axis->bad)
    return;
  tt_diag(s->diags, TT_D_INCONSISTENT_RANGE, sub->span,
          "'%s' is %lld from %s but %lld from %s dimension %d", axis->name,
          (long long)axis->extent, origin_text(s, axis), (long long)extent,
          load->sym->name, dim);
  tt_diag_note(s->diags, axis->from_span, "%lld comes from here",
               (long long)axis->extent);
  tt_note_use(s, sub->use);
  axis->bad = true;
}

/* Indices inside a subscript that is not bare. */
static void
compound(const struct tt_rx *rx, struct tt_span whole)
{
  if (rx->kind == TT_RX_AXIS && !rx->axis->compound) {
    rx->axis->compound = true;
    rx->axis->compound_span = whole;
  }
  for (int i = 0; i < rx->nargs; i++)
    compound(rx->args[i], whole);
  if (rx->other)
    compound(rx->other, whole);
}

/* Returns whether nothing in it is bad. */
static bool
walk(struct tt_sema *s, const struct tt_rx *rx)
{
  bool ok = rx->kind != TT_RX_BAD;

  for (int i = 0; i < rx->nargs; i++) {
    if (rx->kind == TT_RX_LOAD && rx->args[i]->kind == TT_RX_AXIS) {
      bare(s, rx->args[i]->axis, rx, i);
      continue;
    }
    if (rx->kind == TT_RX_LOAD)
      compound(rx->args[i], rx->args[i]->span);
    ok = walk(s, rx->args[i]) && ok;
  }
  if (rx->other)
    ok = walk(s, rx->other) && ok;
  return ok;
}

bool
tt_infer_ranges(struct tt_sema *s, const struct tt_rx *rx,
                const struct tt_axes *axes, bool quiet)
{
  bool ok = true;

  quiet = !walk(s, rx) || quiet;
  for (int i = 0; i < axes->n; i++) {
    struct tt_axis *axis = axes->items[i];
    ok = ok && !axis->bad;
    if (axis->bad || axis->ranged)
      continue;
    ok = false;
    axis->bad = true;
    if (quiet) /* other mistakes may hide the access that tells */
      continue;
    if (axis->compound)
      tt_diag(s->diags, TT_D_RANGE_UNKNOWN, axis->span,
              "cannot infer '%s' (only in '%s'); write '%s in …'", axis->name,
              tt_span_text(s->arena, axis->compound_span), axis->name);
    else
      tt_diag(s->diags, TT_D_RANGE_UNKNOWN, axis->span,
              "cannot infer '%s' (in no subscript); write '%s in …'",
              axis->name, axis->name);
    if (axis->compound)
      tt_diag_note(s->diags, axis->compound_span, "its only use");
    tt_note_use(s, axis->use);
  }
  return ok;
}
