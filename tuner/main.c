/* The program tcc-tune: words of the command line in, exit status out. */
#include "config.h"

#include <signal.h>
#include <stdio.h>

#include "runtime/device.h"
#include "runtime/runner.h"
#include "tuner/job.h"
#include "tuner/options.h"

static int
usage_error(const char *text)
{
  fprintf(stderr, "tcc-tune: error: %s\n", text);
  return TT_EXIT_USAGE;
}

/* Print to stdout; a reader that is gone or a full disk is an error. */
static int
print(const char *text)
{
  if (fputs(text, stdout) < 0 || fflush(stdout) != 0) {
    perror("tcc-tune: error: standard output");
    return TT_EXIT_INPUT;
  }
  return TT_EXIT_DONE;
}

static int
help(void)
{
  struct tt_sb sb = {0};
  tt_options_help(&sb);
  int status = print(tt_sb_str(&sb));
  tt_sb_free(&sb);
  return status;
}

static int
run(struct tt_arena *arena, int argc, char **argv)
{
  struct tt_options options = tt_options_none();
  const char *error;
  if (!tt_options_parse(arena, argc - 1, (const char *const *)argv + 1,
                        &options, &error))
    return usage_error(error);
  if (options.help)
    return help();
  if (options.version)
    return print("tcc-tune " PACKAGE_VERSION "\n");
  return (int)tt_job_run(arena, &options);
}

int
main(int argc, char **argv)
{
  /* A candidate's child is this program again, and what asks for devices: see
   * runtime/runner.h and device.h. */
  int runner = tt_runner_main(argc, argv);
  if (runner < 0)
    runner = tt_device_main(argc, argv);
  if (runner >= 0)
    return runner;
  /* A limit on the size of files is an error of write(), not an end. */
  signal(SIGXFSZ, SIG_IGN);
  struct tt_arena *arena = tt_arena_new();
  int status = run(arena, argc, argv);
  tt_arena_free(arena);
  return status;
}
