#!/usr/bin/env bash
# run.sh BUILD_FOLDER COMPILER: installs the build into a temporary folder, moves it, and builds and runs a consumer against it,
# once by find_package and once by pkg-config.
set -euo pipefail
build=$1
compiler=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/moved" # an installed tree must not remember where it was installed
prefix=$work/moved
libraries=$(dirname "$(find "$prefix" -name libropewalk.so -print -quit)")

echo "== find_package"
cmake -S "$here" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release >"$work/log" ||
  { cat "$work/log"; exit 1; }
cmake --build "$work/build" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/build/consumer"

echo "== pkg-config"
export PKG_CONFIG_PATH=$libraries/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs ropewalk)"
"$compiler" -std=c++20 -O1 -Wall -Wextra -Werror "$here/main.cc" "${flags[@]}" -o "$work/consumer"
LD_LIBRARY_PATH=$libraries "$work/consumer"

echo "== version"
[[ "ropewalk $(pkg-config --modversion ropewalk)" == "$("$prefix/bin/ropewalk" --version)" ]] ||
  { echo "expected one version, but got $(pkg-config --modversion ropewalk) and $("$prefix/bin/ropewalk" --version)"; exit 1; }
if cmake -S "$here" -B "$work/newer" -DCMAKE_PREFIX_PATH="$prefix" -DWANTED=99.0 >"$work/log" 2>&1; then
  echo "expected find_package to refuse version 99.0, but it took $(pkg-config --modversion ropewalk)"
  exit 1
fi
grep -q 'requested version "99.0"' "$work/log" || { cat "$work/log"; exit 1; }
