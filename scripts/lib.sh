# shellcheck shell=bash disable=SC2034
# What the scripts share: messages, packages, the cache folder. Sourced, not run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${ROPEWALK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ropewalk}

build_packages=(
  g++ cmake ninja-build pkg-config python3
  libhwy-dev libdnnl-dev libpcre2-dev libmuparser-dev nlohmann-json3-dev libcli11-dev libfmt-dev node-d3
  libgtest-dev libgmock-dev libbenchmark-dev
)
# libfmt, OpenMP, sanitizers and libFuzzer of clang come apart from the compiler.
check_packages=(clang clang-format clang-tidy libomp-dev libclang-rt-dev shellcheck)

say() { printf '%s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

# missing PACKAGE...: prints those that are not installed. dpkg-query answers in milliseconds; apt would take seconds.
missing() {
  local name
  for name in "$@"; do
    [[ $(dpkg-query -W -f='${Status}' "$name" 2>/dev/null) == 'install ok installed' ]] || printf '%s\n' "$name"
  done
}

# need PACKAGE...: installs what is missing, and says what it does.
need() {
  if ! command -v dpkg-query >/dev/null; then
    say "note: this is no Debian system, so nothing is installed here. Needed (names of Debian's packages): $*"
    return 0
  fi
  local absent=() sudo=()
  mapfile -t absent < <(missing "$@")
  ((${#absent[@]} == 0)) && return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "Packages are missing and there is no sudo. As root, run: apt-get install ${absent[*]}"
    sudo=(sudo)
  fi
  say "Installing ${#absent[@]} packages: ${absent[*]}"
  local log
  log=$(mktemp)
  export DEBIAN_FRONTEND=noninteractive
  # The lists may be absent or old: install from what is there, and update them only when that fails.
  if ! "${sudo[@]}" apt-get install -y --no-install-recommends "${absent[@]}" >"$log" 2>&1 </dev/null; then
    say "Updating the package lists"
    if ! { "${sudo[@]}" apt-get update && "${sudo[@]}" apt-get install -y --no-install-recommends "${absent[@]}"; } \
      >"$log" 2>&1 </dev/null; then
      tail -n 15 "$log" >&2
      rm -f "$log"
      die "Could not install: ${absent[*]}. Without a network, install these packages by hand and run this again."
    fi
  fi
  rm -f "$log"
}

# The cores that this process may use, and no more compilers than memory holds (about 1.5 GB for the largest files).
job_count() {
  local cores memory_gb
  cores=$(nproc)
  memory_gb=$(awk '/MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo 2>/dev/null || echo "$cores")
  ((memory_gb < 1)) && memory_gb=1
  echo $((cores < memory_gb ? cores : memory_gb))
}
