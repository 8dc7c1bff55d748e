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

# Copies a build's output to the file $1 and shows how far it is: one line that moves on a terminal,
# elsewhere a line for each tenth. Knows what Ninja ([12/345]) and Make ([ 12%]) write.
show_build() {
  local log=$1 line percent last=-1 moves=false
  if [ -t 1 ] && [ "${TERM-dumb}" != dumb ]; then moves=true; fi
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    if [[ $line =~ ^\[\ *([0-9]+)/([0-9]+)\] ]]; then
      percent=$((100 * BASH_REMATCH[1] / BASH_REMATCH[2]))
    elif [[ $line =~ ^\[\ *([0-9]+)%\] ]]; then
      percent=${BASH_REMATCH[1]}
    else
      continue
    fi
    if $moves && [ "$percent" -ne "$last" ]; then
      printf '\r   %3d %% after %d s' "$percent" $((SECONDS - build_started))
      last=$percent
    elif ! $moves && [ $((percent / 10)) -ne "$last" ]; then
      printf '   %3d %% after %d s\n' "$percent" $((SECONDS - build_started))
      last=$((percent / 10))
    fi
  done
  if $moves && [ "$last" -ge 0 ]; then printf '\n'; fi
}

# Configures a preset and builds it, or some targets of it: build_preset NAME[:TARGET,...]
# [CMAKE-ARGUMENT...]. Shows how far it is, and warnings and errors alone of what was said.
build_preset() {
  local preset=${1%%:*} targets=(all) log build_started=$SECONDS
  [ "$preset" = "$1" ] || IFS=, read -ra targets <<<"${1#*:}"
  shift
  log=$(mktemp)
  echo "== build $preset"
  if ! { cmake --preset "$preset" -DBUILD_TESTING=ON "$@" 2>&1 &&
    cmake --build "build/$preset" -j "$jobs" --target "${targets[@]}" 2>&1; } | show_build "$log"
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
