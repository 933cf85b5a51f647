/* Owns the choice of CPUs.  A claim is an abstract Unix socket named after
 * the CPU: the kernel lets one process hold it and drops it when that
 * process ends, however it ends. */
#include "config.h"

#include "runtime/cpus.h"

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

struct tt_cpus
tt_cpus_allowed(void)
{
  struct tt_cpus r = {{false}};
  cpu_set_t *set = CPU_ALLOC(TT_MAX_CPUS);
  size_t size = CPU_ALLOC_SIZE(TT_MAX_CPUS);
  if (set && sched_getaffinity(0, size, set) == 0)
    for (int i = 0; i < TT_MAX_CPUS; i++)
      r.member[i] = CPU_ISSET_S(i, size, set);
  if (set)
    CPU_FREE(set);
  if (!tt_cpus_count(&r))
    r.member[0] = true;
  return r;
}

int
tt_cpus_count(const struct tt_cpus *c)
{
  int n = 0;
  for (int i = 0; i < TT_MAX_CPUS; i++)
    n += c->member[i];
  return n;
}

void
tt_cpus_bind(int pid, const struct tt_cpus *c)
{
  /* No allocation: this also runs between fork and exec. */
  unsigned long bits[TT_MAX_CPUS / (8 * sizeof(unsigned long))] = {0};
  const int width = 8 * (int)sizeof(unsigned long);
  bool any = false;
  for (int i = 0; i < TT_MAX_CPUS; i++) {
    if (c->member[i]) {
      bits[i / width] |= 1ul << (i % width);
      any = true;
    }
  }
  if (any)
    sched_setaffinity(pid, sizeof bits, (cpu_set_t *)bits);
}

/* Idle ticks of every CPU since boot. */
static void
read_idle(uint64_t *idle)
{
  FILE *f = fopen("/proc/stat", "re");
  if (!f)
    return;
  char line[512];
  while (fgets(line, sizeof line, f)) {
    unsigned cpu;
    unsigned long long t[5];
    if (sscanf(line, "cpu%u %llu %llu %llu %llu %llu", &cpu, &t[0], &t[1],
               &t[2], &t[3], &t[4]) == 6 &&
        cpu < TT_MAX_CPUS)
      idle[cpu] = t[3] + t[4];
  }
  fclose(f);
}

/* Takes the machine-wide name of a CPU.  Returns the socket that holds it,
 * -1 when another process has it, -2 when there are no such sockets here. */
static int
take(int cpu)
{
  int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (s < 0)
    return -2;
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  int len = snprintf(a.sun_path + 1, sizeof a.sun_path - 1,
                     "tcc-tune-timing-cpu%d", cpu);
  socklen_t size =
      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
  if (bind(s, (struct sockaddr *)&a, size) == 0)
    return s;
  close(s);
  return -1;
}

/* Removes the hyperthreads of `cpu` as sysfs lists them ("0-1", "0,64"). */
static void
remove_siblings(struct tt_cpus *c, int cpu)
{
  char path[96], text[256];
  snprintf(path, sizeof path,
           "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
  FILE *f = fopen(path, "re");
  if (!f)
    return;
  char *p = fgets(text, sizeof text, f);
  fclose(f);
  while (p && *p >= '0' && *p <= '9') {
    long lo = strtol(p, &p, 10), hi = lo;
    if (*p == '-')
      hi = strtol(p + 1, &p, 10);
    for (long i = lo; i <= hi && i < TT_MAX_CPUS; i++)
      c->member[i] = false;
    if (*p == ',')
      p++;
  }
}

struct tt_claim
tt_claim_cpu(void)
{
  struct tt_cpus allowed = tt_cpus_allowed();
  uint64_t *before = calloc(2 * TT_MAX_CPUS, sizeof *before);
  struct tt_claim claim = {.cpu = -1, .lock = -1, .rest = allowed};
  bool tried[TT_MAX_CPUS] = {false};
  if (before && tt_cpus_count(&allowed) > 1) {
    read_idle(before);
    nanosleep(&(struct timespec){0, 30 * 1000 * 1000}, NULL);
    read_idle(before + TT_MAX_CPUS);
  }
  int first = -1;
  while (true) {
    /* The idlest that is left; of equals the last, for CPU 0 takes most
     * interrupts. */
    int best = -1;
    uint64_t most = 0;
    for (int i = 0; i < TT_MAX_CPUS; i++) {
      uint64_t idle = before ? before[TT_MAX_CPUS + i] - before[i] : 0;
      if (allowed.member[i] && !tried[i] && (best < 0 || idle >= most)) {
        best = i;
        most = idle;
      }
    }
    if (best < 0)
      break;
    if (first < 0)
      first = best;
    tried[best] = true;
    claim.lock = take(best);
    if (claim.lock != -1) {
      claim.cpu = best;
      break;
    }
  }
  free(before);
  if (claim.cpu < 0)
    claim.cpu = first;
  if (claim.lock < 0)
    claim.lock = -1;
  claim.rest.member[claim.cpu] = false;
  struct tt_cpus others = claim.rest;
  remove_siblings(&others, claim.cpu);
  if (tt_cpus_count(&others))
    claim.rest = others;
  return claim;
}

void
tt_claim_release(struct tt_claim *claim)
{
  if (claim->lock >= 0)
    close(claim->lock);
  claim->lock = -1;
}
