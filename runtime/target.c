/* Owns what is known of the local machine.  Nothing here is cached, and
 * nothing fails: what cannot be found out gets a default. */
#include "config.h"

#include "runtime/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "runtime/cpus.h"

/* Appends a word, runs of blanks as one. */
static void
add(struct tt_target *t, const char *text)
{
  size_t n = strlen(t->name);
  if (n && n + 1 < sizeof t->name)
    t->name[n++] = ' ';
  for (; *text && n + 1 < sizeof t->name; text++) {
    char c = (unsigned char)*text < ' ' ? ' ' : *text;
    if (c != ' ' || (n && t->name[n - 1] != ' '))
      t->name[n++] = c;
  }
  while (n && t->name[n - 1] == ' ')
    n--;
  t->name[n] = 0;
}

/* The value of the first line "key : value" of /proc/cpuinfo. */
static int
cpuinfo(const char *key, char *value, int size)
{
  FILE *f = fopen("/proc/cpuinfo", "re");
  char line[1024];
  int found = 0;
  while (f && !found && fgets(line, sizeof line, f)) {
    char *colon = strchr(line, ':');
    size_t n = strlen(key);
    if (!colon || strncmp(line, key, n) || !strchr(" \t:", line[n]))
      continue;
    colon += 1 + strspn(colon + 1, " \t");
    colon[strcspn(colon, "\n")] = 0;
    snprintf(value, (size_t)size, "%s", colon);
    found = *value != 0;
  }
  if (f)
    fclose(f);
  return found;
}

static void
model(struct tt_target *t)
{
  static const char *const keys[] = {"model name", "cpu model", "uarch",
                                     "CPU part", "cpu"};
  struct utsname u;
  char text[128], part[128];
  if (uname(&u) == 0)
    add(t, u.machine);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    if (!cpuinfo(keys[i], text, sizeof text))
      continue;
    if (!strcmp(keys[i], "CPU part") &&
        cpuinfo("CPU implementer", part, sizeof part))
      add(t, part);
    add(t, text);
    return;
  }
}

static void
vectors(struct tt_target *t)
{
  t->vector_bytes = 16;
  t->registers = 16;
#if defined __x86_64__ || defined __i386__
  __builtin_cpu_init();
#define FEATURE(name)                                                          \
  if (__builtin_cpu_supports(name))                                            \
  add(t, name)
  FEATURE("sse4.2");
  FEATURE("avx");
  FEATURE("avx2");
  FEATURE("fma");
  FEATURE("avx512f");
  FEATURE("avx512bw");
  FEATURE("avx512vl");
  FEATURE("avx512vnni");
#undef FEATURE
  if (__builtin_cpu_supports("avx512f")) {
    t->vector_bytes = 64;
    t->registers = 32;
  } else if (__builtin_cpu_supports("avx")) {
    t->vector_bytes = 32;
  }
#elif defined __aarch64__ || defined __powerpc64__ || defined __s390x__
  t->registers = 32;
#endif
}

static int
read_line(const char *dir, const char *file, char *text, int size)
{
  char path[160];
  snprintf(path, sizeof path, "%s/%s", dir, file);
  FILE *f = fopen(path, "re");
  int ok = f && fgets(text, size, f);
  if (f)
    fclose(f);
  return ok;
}

/* One cache of sysfs into the right field. */
static void
cache(struct tt_target *t, const char *dir)
{
  char level[16], type[32], size[32], *unit;
  if (!read_line(dir, "level", level, sizeof level) ||
      !read_line(dir, "type", type, sizeof type) ||
      !read_line(dir, "size", size, sizeof size) ||
      !strncmp(type, "Instruction", 11))
    return;
  int64_t bytes = strtoll(size, &unit, 10);
  if (*unit == 'K')
    bytes *= 1024;
  else if (*unit == 'M')
    bytes *= 1024 * 1024;
  if (bytes <= 0)
    return;
  if (level[0] == '1')
    t->l1 = bytes;
  else if (level[0] == '2')
    t->l2 = bytes;
  else if (level[0] == '3')
    t->l3 = bytes;
}

static void
caches(struct tt_target *t)
{
  char dir[80];
  for (int i = 0; i < 8; i++) {
    snprintf(dir, sizeof dir, "/sys/devices/system/cpu/cpu0/cache/index%d", i);
    cache(t, dir);
  }
  if (t->l1 <= 0)
    t->l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  if (t->l2 <= 0)
    t->l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (t->l3 <= 0)
    t->l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (t->l1 <= 0)
    t->l1 = 32 << 10;
  if (t->l2 <= 0)
    t->l2 = 512 << 10;
  if (t->l3 <= 0)
    t->l3 = t->l2 > 4 << 20 ? t->l2 : 4 << 20;
}

struct tt_target
tt_target_local(void)
{
  struct tt_target t;
  memset(&t, 0, sizeof t);
  model(&t);
  vectors(&t);
  caches(&t);
  struct tt_cpus allowed = tt_cpus_allowed();
  t.cpus = tt_cpus_count(&allowed);
  return t;
}
