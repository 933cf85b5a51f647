/* Writing files.  Owns temporary files beside the outputs.
 *
 * Invariant: a regular file at an output's path holds either its old bytes
 * or all of the new ones, also when the process is killed; a temporary file
 * outlives this process only when it is killed within tt_outputs_commit().
 */
#include "config.h"

#include "tuner/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One output on its way. */
struct draft {
  const char *target; /* the path with symbolic links followed */
  char *temp;         /* NULL: written in place, or renamed already */
};

static bool
is_stdout(const char *path)
{
  return strcmp(path, "-") == 0;
}

bool
tt_output_special(const char *path)
{
  struct stat st;
  return is_stdout(path) ||
         (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
}

bool
tt_output_same(const char *a, const char *b)
{
  struct stat x, y;
  if (strcmp(a, b) == 0)
    return true;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino && S_ISREG(x.st_mode);
}

static const char *
failed(struct tt_arena *arena, const char *path, int error)
{
  return tt_arena_printf(arena, "cannot write '%s': %s",
                         is_stdout(path) ? "standard output" : path,
                         strerror(error));
}

/* Where a rename must put the file: `path` itself, or what a symbolic link
 * there points to. */
static const char *
follow(struct tt_arena *arena, const char *path)
{
  char *real = realpath(path, NULL);
  if (!real)
    return path;
  const char *copy = tt_arena_strdup(arena, real);
  free(real);
  return copy;
}

/* A new file beside `target`, open for writing; -1 and errno. */
static int
open_temp(struct tt_arena *arena, const char *target, char **temp)
{
  const char *slash = strrchr(target, '/');
  int dir = slash ? (int)(slash - target) + 1 : 0;
  *temp = tt_arena_printf(arena, "%.*s.tcc-tune-XXXXXX", dir, target);
  return mkstemp(*temp);
}

static int
write_all(int fd, const char *text, size_t len)
{
  while (len > 0) {
    ssize_t n = write(fd, text, len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return errno;
    text += n;
    len -= (size_t)n;
  }
  return 0;
}

/* The permissions the file shall have: those of the file it replaces, or
 * what creating it plainly would give. */
static mode_t
mode_for(const char *target)
{
  struct stat st;
  if (stat(target, &st) == 0)
    return st.st_mode & 07777;
  mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

const char *
tt_output_probe(struct tt_arena *arena, const char *path)
{
  struct stat st;
  char *temp;
  if (is_stdout(path))
    return NULL;
  if (stat(path, &st) == 0) {
    if (S_ISDIR(st.st_mode))
      return failed(arena, path, EISDIR);
    if (access(path, W_OK) != 0)
      return failed(arena, path, errno);
    if (!S_ISREG(st.st_mode))
      return NULL;
  } else if (errno != ENOENT || path[strlen(path) - 1] == '/') {
    return failed(arena, path, errno == ENOENT ? EISDIR : errno);
  }
  int fd = open_temp(arena, follow(arena, path), &temp);
  if (fd < 0)
    return failed(arena, path, errno);
  close(fd);
  unlink(temp);
  return NULL;
}

/* Standard output and devices: there is nothing to rename. */
static const char *
write_in_place(struct tt_arena *arena, const struct tt_output *o)
{
  int fd = is_stdout(o->path) ? dup(STDOUT_FILENO)
                              : open(o->path, O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return failed(arena, o->path, errno);
  int error = write_all(fd, o->text, o->len);
  if (close(fd) != 0 && !error)
    error = errno;
  return error ? failed(arena, o->path, error) : NULL;
}

static const char *
draft_file(struct tt_arena *arena, const struct tt_output *o, struct draft *d)
{
  d->target = follow(arena, o->path);
  int fd = open_temp(arena, d->target, &d->temp);
  if (fd < 0) {
    d->temp = NULL;
    return failed(arena, o->path, errno);
  }
  int error = write_all(fd, o->text, o->len);
  if (!error && fchmod(fd, mode_for(d->target)) != 0)
    error = errno;
  /* Some filesystems cannot flush and say EINVAL: then nothing is to flush. */
  if (!error && fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
    error = errno;
  if (close(fd) != 0 && !error)
    error = errno;
  return error ? failed(arena, o->path, error) : NULL;
}

const char *
tt_outputs_commit(struct tt_arena *arena, int n, const struct tt_output *outs)
{
  struct draft *drafts = TT_ARRAY(arena, struct draft, (size_t)n + 1);
  const char *error = NULL;
  for (int i = 0; i < n && !error; i++)
    if (!tt_output_special(outs[i].path))
      error = draft_file(arena, &outs[i], &drafts[i]);
  /* What cannot be undone comes after all that can fail. */
  for (int i = 0; i < n && !error; i++)
    if (tt_output_special(outs[i].path))
      error = write_in_place(arena, &outs[i]);
  for (int i = 0; i < n && !error; i++) {
    if (!drafts[i].temp)
      continue;
    if (rename(drafts[i].temp, drafts[i].target) != 0)
      error = failed(arena, outs[i].path, errno);
    else
      drafts[i].temp = NULL;
  }
  for (int i = 0; i < n; i++)
    if (drafts[i].temp)
      unlink(drafts[i].temp);
  return error;
}

const char *
tt_read_file(struct tt_arena *arena, const char *path, size_t *len,
             const char **error)
{
  struct tt_sb sb = {0};
  char buffer[1 << 14];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = -1;
  while (fd >= 0 && (n = read(fd, buffer, sizeof buffer)) != 0) {
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      break;
    tt_sb_addn(&sb, buffer, (size_t)n);
    if (sb.len > 256u << 20) { /* no source is as long; /dev/zero is */
      errno = EFBIG;
      n = -1;
      break;
    }
  }
  const char *text = NULL;
  if (n < 0)
    *error =
        tt_arena_printf(arena, "cannot read '%s': %s", path, strerror(errno));
  else
    text = tt_arena_strndup(arena, tt_sb_str(&sb), sb.len);
  *len = sb.len;
  if (fd >= 0)
    close(fd);
  tt_sb_free(&sb);
  return text;
}
