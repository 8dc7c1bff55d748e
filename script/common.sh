# shellcheck shell=bash
# Shared by the scripts: where the top is, and how a preset is built. Sourced, not run.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
jobs=$(nproc)

# Ninja where it is; again after an installation.
choose_generator() {
  if command -v ninja >/dev/null; then
    export CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}
  fi
}
choose_generator

# Configures a preset and builds it, or some targets of it: build_preset NAME[:TARGET,...]
# [CMAKE-ARGUMENT...]. Says little when it goes well.
build_preset() {
  local preset=${1%%:*} targets=(all) log
  [ "$preset" = "$1" ] || IFS=, read -ra targets <<<"${1#*:}"
  shift
  log=$(mktemp)
  echo "== build $preset"
  if ! { cmake --preset "$preset" -DBUILD_TESTING=ON "$@" && cmake --build "build/$preset" -j "$jobs" --target "${targets[@]}"; } >"$log" 2>&1
  then
    tail -n 60 "$log"
    rm -f "$log"
    echo "build of $preset failed" >&2
    return 1
  fi
  grep -B1 -A6 'warning:' "$log" || true
  rm -f "$log"
}

# Runs a preset's tests: test_preset NAME [CTEST-ARGUMENT...].
test_preset() {
  local preset=$1
  shift
  echo "== test $preset $*"
  ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --no-tests=error "$@"
}
