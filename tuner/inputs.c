/* Names of outputs in folders.
 *
 * Invariant: no two outputs of a run have the same name, and a folder that
 * was made here and got no file is removed again.
 */
#include "config.h"

#include "tuner/inputs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tuner/job.h"

/* A name that people give to files. */
static bool
is_file_name(const char *path)
{
  const char *base = tt_base_name(path), *dot = strrchr(base, '.');
  return dot && dot[1] && dot != base && strcmp(base, "..") != 0;
}

/* Is this a folder, or must it become one? */
static bool
is_folder(const char *path)
{
  struct stat st;
  return path[strlen(path) - 1] == '/' ||
         (!is_file_name(path) && stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

/* "FOLDER/STEM" of an input, with what is appended. */
static const char *
place(struct tt_arena *arena, const char *folder, const char *input,
      const char *end)
{
  const char *base = tt_base_name(input), *dot = strrchr(base, '.');
  int stem = (int)(dot && dot > base ? (size_t)(dot - base) : strlen(base));
  const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
  return tt_arena_printf(arena, "%s%s%.*s%s", folder, slash, stem, base, end);
}

/* What an option makes of its folder; one that names a file is an error where
 * there are several inputs. */
static const char *
place_option(struct tt_arena *arena, const struct tt_options *o,
             const char *name, const char *end, const char **path)
{
  if (!*path)
    return NULL;
  if (is_folder(*path) || (o->inputs.n > 1 && !is_file_name(*path)))
    *path = place(arena, *path, o->input, end);
  else if (o->inputs.n > 1)
    return tt_arena_printf(arena,
                           "%s '%s' is one file and there are %d inputs; give "
                           "a folder for them",
                           name, *path, o->inputs.n);
  return NULL;
}

static const char *
place_all(struct tt_arena *arena, struct tt_options *o)
{
  const struct {
    const char *name, *end;
    const char **path;
  } outputs[] = {{"-o", ".c", &o->output},
                 {"--header", ".h", &o->header},
                 {"--emit-test", "_test.c", &o->emit_test},
                 {"--emit-bench", "_bench.c", &o->emit_bench}};
  const char *error = NULL;
  for (size_t i = 0; i < sizeof outputs / sizeof outputs[0] && !error; i++)
    error = place_option(arena, o, outputs[i].name, outputs[i].end,
                         outputs[i].path);
  return error;
}

const char *
tt_inputs_options(struct tt_arena *arena, const struct tt_options *o,
                  struct tt_options **each)
{
  int n = o->inputs.n;
  *each = TT_ARRAY(arena, struct tt_options, (size_t)n + 1);
  for (int i = 0; i < n; i++) {
    (*each)[i] = *o;
    (*each)[i].input = o->inputs.items[i];
    const char *error = place_all(arena, &(*each)[i]);
    if (error)
      return error;
    for (int j = 0; j < i; j++)
      if (strcmp((*each)[i].output, (*each)[j].output) == 0)
        return tt_arena_printf(
            arena, "'%s' and '%s' would both be written to '%s'",
            (*each)[j].input, (*each)[i].input, (*each)[i].output);
  }
  return NULL;
}

const char *
tt_inputs_folders(struct tt_arena *arena, const struct tt_options *o,
                  struct tt_folders *made)
{
  const char *paths[] = {o->output, o->header, o->emit_test, o->emit_bench};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    struct stat st;
    bool folder = paths[i] && (o->inputs.n > 1 || is_folder(paths[i]));
    if (!folder || (stat(paths[i], &st) == 0 && S_ISDIR(st.st_mode)))
      continue;
    if (mkdir(paths[i], 0777) != 0)
      return tt_arena_printf(arena, "cannot make the folder '%s': %s", paths[i],
                             strerror(errno));
    made->made[made->n++] = paths[i];
  }
  return NULL;
}

void
tt_inputs_tidy(const struct tt_folders *made)
{
  for (int i = made->n; i-- > 0;)
    (void)rmdir(made->made[i]); /* fails where there are files */
}
