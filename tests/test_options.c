/* The command line: parsing, errors with suggestions, and the words that an
 * emitted file keeps. */
#include "config.h"

#include "tuner/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tuner/banner.h"

#define WORDS(...)                                                             \
  (const char *const[]){__VA_ARGS__},                                          \
      (int)(sizeof(const char *const[]){__VA_ARGS__} / sizeof(char *))

static struct tt_arena *arena;

static int
setup(void **state)
{
  (void)state;
  arena = tt_arena_new();
  return 0;
}

static int
teardown(void **state)
{
  (void)state;
  tt_arena_free(arena);
  return 0;
}

static struct tt_options
parse(const char *const *words, int n)
{
  struct tt_options o = tt_options_none();
  const char *error = NULL;
  if (!tt_options_parse(arena, n, words, &o, &error))
    fail_msg("%s", error);
  return o;
}

static const char *
refused(const char *const *words, int n)
{
  struct tt_options o = tt_options_none();
  const char *error = NULL;
  if (tt_options_parse(arena, n, words, &o, &error))
    assert_false(tt_options_check(arena, &o, &error));
  assert_non_null(error);
  assert_null(strchr(error, '\n'));
  return error;
}

static void
test_spellings(void **state)
{
  (void)state;
  struct tt_options o = parse(WORDS("-DM=1", "-D", "N=2", "-o", "a.c", "-Iinc",
                                    "-MD", "-MFx.d", "--trials=7", "--time",
                                    "1.5", "--vector=256", "-q", "in.te"));
  assert_int_equal(o.defines.n, 2);
  assert_string_equal(o.defines.items[0], "M=1");
  assert_string_equal(o.defines.items[1], "N=2");
  assert_string_equal(o.output, "a.c");
  assert_string_equal(o.include_dirs.items[0], "inc");
  assert_true(o.deps);
  assert_string_equal(o.deps_file, "x.d");
  assert_int_equal(o.trials, 7);
  assert_true(o.time == 1.5);
  assert_int_equal(o.vector_bits, 256);
  assert_true(o.quiet);
  assert_string_equal(o.input, "in.te");
  /* What follows --help does not matter. */
  o = parse(WORDS("--help", "--nonsense", "a.te", "b.te"));
  assert_true(o.help);
  o = parse(WORDS("--", "--odd.te"));
  assert_string_equal(o.input, "--odd.te");
}

static void
test_choices(void **state)
{
  (void)state;
  struct tt_options o =
      parse(WORDS("--std=c99", "--workspace=arg", "--search=random",
                  "--model=none", "--dump=loops", "--progress=json"));
  assert_int_equal(o.std, TT_STD_C99);
  assert_int_equal(o.workspace, TT_WS_ARG);
  assert_int_equal(o.search, 2);
  assert_int_equal(o.model, 2);
  assert_int_equal(o.dump, TT_DUMP_LOOPS);
  assert_int_equal(o.progress, TT_PROGRESS_JSON);
}

static void
test_defaults(void **state)
{
  (void)state;
  const char *error;
  struct tt_options o = parse(WORDS("a.te", "-o", "a.c"));
  assert_true(tt_options_check(arena, &o, &error));
  tt_options_defaults(arena, &o);
  assert_true(o.time == 60);
  assert_int_equal(o.trials, TT_NOT_GIVEN);
  assert_int_equal(o.std, TT_STD_GNU11);
  assert_int_equal(o.vector_bits, TT_NOT_GIVEN);
  assert_int_equal(o.threads, 1);
  assert_string_equal(o.cflags, "-O3 -march=native");
  /* A number of trials is a budget of its own. */
  o = parse(WORDS("a.te", "-o", "a.c", "--trials=3"));
  assert_true(tt_options_check(arena, &o, &error));
  tt_options_defaults(arena, &o);
  assert_true(o.time == 0);
  o = parse(WORDS("a.te", "-o", "a.c", "--std=c99"));
  assert_true(tt_options_check(arena, &o, &error));
  tt_options_defaults(arena, &o);
  assert_int_equal(o.vector_bits, 0);
}

static void
test_suggestions(void **state)
{
  (void)state;
  assert_string_equal(refused(WORDS("--trails=5")),
                      "unknown option '--trails'; did you mean '--trials'?");
  assert_string_equal(refused(WORDS("--shedule", "x")),
                      "unknown option '--shedule'; did you mean "
                      "'--schedule'?");
  assert_string_equal(refused(WORDS("--zzzzzzzz")),
                      "unknown option '--zzzzzzzz'; --help lists them all");
  assert_string_equal(refused(WORDS("-x")),
                      "unknown option '-x'; --help lists them all");
}

static void
test_bad_values(void **state)
{
  (void)state;
  assert_string_equal(refused(WORDS("--trials=many")),
                      "--trials 'many': a whole number from 0 to 1000000000 "
                      "expected");
  assert_string_equal(refused(WORDS("--seed=99999999999999999999")),
                      "--seed '99999999999999999999': a whole number of at "
                      "least 0 expected");
  assert_string_equal(refused(WORDS("--time=-1")),
                      "--time '-1': a number of at least 0 expected");
  assert_string_equal(refused(WORDS("--time=nan")),
                      "--time 'nan': a number of at least 0 expected");
  assert_string_equal(refused(WORDS("--vector=100")),
                      "--vector '100': 128, 256, 512 or none expected");
  assert_string_equal(refused(WORDS("--std=c89")),
                      "--std 'c89': c99 or gnu11 expected");
  assert_string_equal(refused(WORDS("-D", "M")), "-D 'M': NAME=VALUE expected");
  assert_string_equal(refused(WORDS("-o")), "-o needs a value: -o FILE");
  assert_string_equal(refused(WORDS("--check=1")), "--check takes no value");
  assert_string_equal(refused(WORDS("a.te", "b.te", "-o", "-")),
                      "-o - is for one input; give a folder for several: -o "
                      "FOLDER");
  assert_string_equal(refused(WORDS("a.te", "b.te", "--dump=loops")),
                      "--dump is for one input");
  assert_string_equal(
      refused(WORDS("a.te", "b.te", "-o", "d", "--schedule=a.c")),
      "--schedule is for one input");
  assert_string_equal(
      refused(WORDS("a.te", "b.te", "-o", "d", "-MD", "-MF", "x.d")),
      "-MF is for one input; with -MD alone each has a file of "
      "its own");
}

static void
test_several_inputs(void **state)
{
  (void)state;
  struct tt_options o = parse(WORDS("a.te", "-o", "d", "b.te", "--", "-c.te"));
  assert_int_equal(o.inputs.n, 3);
  assert_string_equal(o.input, "a.te");
  assert_string_equal(o.inputs.items[1], "b.te");
  assert_string_equal(o.inputs.items[2], "-c.te");
}

static void
test_target(void **state)
{
  (void)state;
  struct tt_options o = parse(WORDS("--target=c"));
  assert_true(o.target.given);
  assert_true(o.target.l1 < 0 && o.target.vector < 0);
  o = parse(WORDS("--target=c:l2=2M,vector=128,registers=16,l1=48K"));
  assert_int_equal(o.target.vector, 128);
  assert_int_equal(o.target.registers, 16);
  assert_int_equal(o.target.l1, 48 << 10);
  assert_int_equal(o.target.l2, 2 << 20);
  assert_int_equal(o.target.l3, -1);
  struct tt_sb text = {0};
  tt_machine_print(&o.target, &text);
  assert_string_equal(text.s, "c:vector=128,registers=16,l1=48K,l2=2048K");
  tt_sb_free(&text);
  struct tt_options gpu =
      parse(WORDS("--target=cuda:sm_90:shared=100K,processors=114"));
  assert_int_equal(gpu.target.sm, 90);
  assert_int_equal(gpu.target.processors, 114);
  assert_int_equal(gpu.target.shared, 100 << 10);
  text = (struct tt_sb){0};
  tt_machine_print(&gpu.target, &text);
  assert_string_equal(text.s, "cuda:sm_90:processors=114,shared=100K");
  tt_sb_free(&text);
  /* The width of vectors, unless that is given by itself. */
  tt_options_defaults(arena, &o);
  assert_int_equal(o.vector_bits, 128);
  o = parse(WORDS("--target=c:vector=128", "--vector=256"));
  tt_options_defaults(arena, &o);
  assert_int_equal(o.vector_bits, 256);
  o = parse(WORDS("--target=c:vector=128", "--std=c99"));
  tt_options_defaults(arena, &o);
  assert_int_equal(o.vector_bits, 0);
  struct tt_options of_file = parse(WORDS("--vector=512"));
  o = parse(WORDS("--target=c:vector=none"));
  tt_options_inherit(arena, &o, &of_file);
  tt_options_defaults(arena, &o);
  assert_int_equal(o.vector_bits, 0);

  assert_string_equal(
      refused(WORDS("--target=arm")),
      "--target 'arm': c, c:NAME=VALUE,... or cuda:sm_NN expected");
  assert_string_equal(
      refused(WORDS("--target=c:")),
      "--target 'c:': c, c:NAME=VALUE,... or cuda:sm_NN expected");
  assert_string_equal(refused(WORDS("--target=cuda:80")),
                      "--target 'cuda:80': cuda:sm_NN or "
                      "cuda:sm_NN:NAME=VALUE,... expected, as cuda:sm_90");
  assert_string_equal(refused(WORDS("--target=cuda:sm_90:l1=48K")),
                      "--target: 'l1=48K': processors or shared=VALUE "
                      "expected");
  assert_string_equal(refused(WORDS("--target=cuda:sm_90:processors=0")),
                      "--target: 'processors=0': a number from 1 to 1024 "
                      "expected after processors=");
  assert_string_equal(refused(WORDS("--target=cuda:sm_90:shared=1M")),
                      "--target: 'shared=1M': a number of bytes from 16K to "
                      "227K, as 48K expected after shared=");
  refused(WORDS("--target=cuda:sm_90:"));
  refused(WORDS("--target=cuda:sm_90,processors=114"));
  assert_string_equal(refused(WORDS("--target=c:l4=1M")),
                      "--target: 'l4=1M': vector, registers, l1, l2 or "
                      "l3=VALUE expected");
  assert_string_equal(refused(WORDS("--target=c:vector=96")),
                      "--target: 'vector=96': 128, 256, 512 or none expected "
                      "after vector=");
  refused(WORDS("--target=c:registers"));
  refused(WORDS("--target=c:registers=4K"));
  refused(WORDS("--target=c:registers=4"));
  refused(WORDS("--target=c:l1=-1K"));
  refused(WORDS("--target=c:l1=32KB"));
  refused(WORDS("--target=c:l1=999999999999999G"));
  refused(WORDS("--target=c:l1=32K,"));
  refused(WORDS("--target=c:l1=1M,l2=32K"));
  refused(WORDS("--target=c:l1=1M,l3=32K"));
}

static void
test_together(void **state)
{
  (void)state;
  refused(WORDS("-o", "a.c"));
  refused(WORDS("a.te"));
  refused(WORDS("a.te", "--dump=ast", "--header=a.h"));
  refused(WORDS("a.te", "-o", "a.c", "-MF", "a.d"));
  refused(WORDS("a.te", "-o", "-", "-MD"));
  refused(WORDS("a.te", "-o", "-", "--check"));
  refused(WORDS("a.te", "-o", "a.c", "--check", "--schedule=s"));
  refused(WORDS("a.te", "-o", "a.c", "--std=c99", "--vector=256"));
}

static void
test_every_option_is_found(void **state)
{
  (void)state;
  const char *name, *alias;
  int n = 0;
  struct tt_sb help = {0};
  tt_options_help(&help);
  while (tt_options_name(n, &name, &alias)) {
    struct tt_options o = tt_options_none();
    const char *error = NULL;
    const char *words[2] = {name, "8"};
    if (!tt_options_parse(arena, 2, words, &o, &error))
      assert_null(strstr(error, "unknown"));
    assert_non_null(strstr(help.s, name));
    n++;
  }
  assert_true(n > 20);
  for (const char *line = help.s; *line; line += strcspn(line, "\n") + 1)
    assert_true(strcspn(line, "\n") < 80);
  tt_sb_free(&help);
}

/* What is kept in an emitted file gives the same options when read back. */
static void
test_code_words(void **state)
{
  (void)state;
  const char *error = NULL;
  struct tt_options o =
      parse(WORDS("--vector=256", "--workspace=arg", "--strict-fp", "-D", "M=5",
                  "-D", "S=it's \\ */", "--trials=9", "-o", "dir/x.c", "x.te"));
  struct tt_sb words = {0}, text = {0};
  tt_options_code_words(&o, &words);
  const struct tt_banner_measured measured = {
      "18.7 ms a call", "largest error 0.1", "some CPU", "cc 12 -O3"};
  struct tt_banner b = {.kernel = "x",
                        .source = "x.te",
                        .code_words = words.s,
                        .measured = &measured,
                        .schedule = "schedule {\n  C.unroll(k);\n}\n"};
  tt_banner_print(&text, &b);
  assert_ptr_equal(strstr(text.s, "*/"), text.s + text.len - 3);
  assert_null(strstr(text.s, "dir"));

  struct tt_options back;
  assert_true(tt_banner_options(arena, text.s, &back, &error));
  assert_int_equal(back.vector_bits, 256);
  assert_int_equal(back.workspace, TT_WS_ARG);
  assert_true(back.strict_fp);
  assert_string_equal(back.defines.items[0], "M=5");
  assert_int_equal(back.trials, TT_NOT_GIVEN);

  struct tt_options mine = parse(WORDS("-D", "M=6", "--vector=512"));
  tt_options_inherit(arena, &mine, &back);
  assert_int_equal(mine.vector_bits, 512);
  assert_int_equal(mine.workspace, TT_WS_ARG);
  assert_int_equal(mine.defines.n, 2);
  assert_string_equal(mine.defines.items[0], "M=6");

  /* Stripping leaves what a run without measuring writes. */
  struct tt_sb bare = {0};
  b.measured = NULL;
  tt_banner_print(&bare, &b);
  size_t n = text.len;
  assert_string_equal(tt_banner_strip(arena, text.s, &n), bare.s);
  assert_int_equal(n, bare.len);

  /* For GPUs options that they have. */
  struct tt_options gpu = parse(WORDS("-o", "x.cu", "--strict-fp", "x.te"));
  tt_options_defaults(arena, &gpu);
  tt_sb_clear(&words);
  tt_options_code_words(&gpu, &words);
  assert_string_equal(words.s, "--strict-fp ");
  tt_sb_free(&words);
  tt_sb_free(&text);
  tt_sb_free(&bare);
}

static void
test_no_banner(void **state)
{
  (void)state;
  struct tt_options o;
  const char *error = NULL;
  assert_true(tt_banner_options(arena, "schedule { }\n", &o, &error));
  assert_int_equal(o.vector_bits, TT_NOT_GIVEN);
  assert_false(tt_banner_options(
      arena, "/*\n * command: tcc-tune --nonsense\n */\n", &o, &error));
  assert_non_null(strstr(error, "--nonsense"));
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_spellings),
      cmocka_unit_test(test_choices),
      cmocka_unit_test(test_defaults),
      cmocka_unit_test(test_suggestions),
      cmocka_unit_test(test_bad_values),
      cmocka_unit_test(test_several_inputs),
      cmocka_unit_test(test_target),
      cmocka_unit_test(test_together),
      cmocka_unit_test(test_every_option_is_found),
      cmocka_unit_test(test_code_words),
      cmocka_unit_test(test_no_banner),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
