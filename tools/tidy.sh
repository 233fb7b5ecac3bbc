#!/usr/bin/env bash
# tidy.sh BUILD_FOLDER [FILE...]: clang-tidy over the library and the program (tests and SIMD kernels cost minutes and find little).
set -euo pipefail
build=$1
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if (($# > 0)); then
  printf '%s\0' "$@"
else
  git ls-files -z -- 'src/*.cc' 'apps/*.cc' ':!:*_test.cc' ':!:*_bench.cc' ':!:src/simd/*'
fi | xargs -0 -n 1 -P "$(nproc)" clang-tidy -p "$build" --quiet --warnings-as-errors='*' 2>&1 |
  { grep -v -e 'warnings generated' -e 'Suppressed .* warnings' -e 'Use -header-filter' -e '^$' || true; }
