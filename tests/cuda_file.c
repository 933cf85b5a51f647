/* Kernels of several nests in one file of CUDA C: each in a namespace, because
 * helpers have the same names in all of them; what they include is included
 * outside of these, at the beginning. */
#include "config.h"

#include "tests/cuda_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/exec_c.h"

static void
add_text(struct cuda_file *f, const char *name, const char *text)
{
  tt_sb_printf(&f->text, "namespace %s {\n", name);
  for (const char *line = text; *line;) {
    size_t n = strcspn(line, "\n");
    n += line[n] == '\n';
    struct tt_sb *sb = strncmp(line, "#include", 8) == 0 ? &f->head : &f->text;
    tt_sb_addn(sb, line, n);
    line += n;
  }
  tt_sb_add(&f->text, "\n}\n");
}

const char *
cuda_file_add(struct tt_arena *arena, struct cuda_file *f,
              const struct tt_nest *nest, struct tt_gpu_code *code)
{
  struct tt_sb text = {0};
  const char *name = tt_arena_printf(arena, "f%d", f->n);
  const char *error = tt_codegen_gpu(arena, nest, TT_CUDA, name, code, &text);
  if (!error) {
    add_text(f, name, tt_sb_str(&text));
    f->n++;
  }
  tt_sb_free(&text);
  return error;
}

bool
cuda_file_write(const struct cuda_file *f, const char *path)
{
  FILE *out = fopen(path, "w");
  if (!out)
    return false;
  bool ok = fputs(tt_sb_str(&f->head), out) >= 0 &&
            fputs(tt_sb_str(&f->text), out) >= 0;
  return fclose(out) == 0 && ok;
}

const char *
cuda_file_ptx(struct tt_arena *arena, const struct cuda_file *f,
              const char *arch, const char **error)
{
  const char *tmp = getenv("TMPDIR"), *text = NULL;
  char *dir = tt_arena_printf(arena, "%s/tt-cuda-XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(dir)) {
    *error = "no temporary directory";
    return NULL;
  }
  const char *cu = tt_arena_printf(arena, "%s/k.cu", dir),
             *ptx = tt_arena_printf(arena, "%s/k.ptx", dir),
             *log = tt_arena_printf(arena, "%s/log", dir);
  const char *command = tt_arena_printf(
      arena, "nvcc -ptx -Werror all-warnings -arch=%s -o '%s' '%s' >'%s' 2>&1",
      arch, ptx, cu, log);
  if (cuda_file_write(f, cu) && system(command) == 0)
    text = exec_read_file(arena, ptx);
  else
    *error = tt_arena_printf(arena, "%s: %.2000s", command,
                             exec_read_file(arena, log));
  unlink(cu);
  unlink(ptx);
  unlink(log);
  rmdir(dir);
  return text;
}

void
cuda_file_clear(struct cuda_file *f)
{
  tt_sb_free(&f->head);
  tt_sb_free(&f->text);
  *f = (struct cuda_file){0};
}
