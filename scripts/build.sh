#!/usr/bin/env bash
# Installs what is missing, builds the release preset, and leaves the program at build/ropewalk.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
  echo "usage: scripts/build.sh    installs what is missing, builds, and leaves the program at build/ropewalk"
  exit 0
fi
(($# == 0)) || die "build.sh: expected no arguments, but got: $*"

need "${build_packages[@]}"
cd "$root"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cmake --preset release >"$log" 2>&1; then
  cat "$log" >&2
  die "build.sh: cmake could not configure; its messages are above"
fi
cmake --build --preset release --parallel "$(job_count)" >&2
say "Built: build/ropewalk"
