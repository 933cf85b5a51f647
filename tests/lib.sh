# Shell functions of the .tap tests: cases are reported in the Test Anything
# Protocol.  Sourced with the environment that tests/local.mk sets.
set -u
LC_ALL=C
export LC_ALL

test_name=$(basename "$0" .tap)
tune=$abs_top_builddir/tcc-tune
examples=$abs_top_srcdir/examples
scratch=$abs_top_builddir/tests/scratch/$test_name
# A case may have taken away the right to write.
[ ! -d "$scratch" ] || chmod -R u+rwx "$scratch"
rm -rf "$scratch"
mkdir -p "$scratch/home"
# Never the user's history.
HOME=$scratch/home
XDG_CACHE_HOME=$scratch/home/cache
export HOME XDG_CACHE_HOME
cd "$scratch" || exit 99

cases=0

# Report a case: result 0 or not, its name, and a file whose lines explain a
# failure.
report() {
  cases=$((cases + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $cases - $2"
  else
    echo "not ok $cases - $2"
    [ ! -f "${3-}" ] || sed 's/^/# /' "$3"
  fi
}

skip() {
  cases=$((cases + 1))
  echo "ok $cases - $1 # SKIP $2"
}

# check NAME COMMAND...: passes when the command succeeds; its output is shown
# when it does not.
check() {
  check_name=$1
  shift
  check_status=0
  "$@" >"$scratch/check.out" 2>&1 || check_status=$?
  [ $check_status -eq 0 ] ||
    echo "exit status $check_status of: $*" >>"$scratch/check.out"
  report $check_status "$check_name" "$scratch/check.out"
}

# Succeeds when the command's exit status is the one given first.
exits() {
  wanted=$1
  shift
  got=0
  "$@" || got=$?
  [ $got -eq "$wanted" ] || {
    echo "exit status $got instead of $wanted"
    return 1
  }
}

have() {
  command -v "$1" >/dev/null 2>&1
}

# The last line of every test.
finish() {
  echo "1..$cases"
}
