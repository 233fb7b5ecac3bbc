#!/usr/bin/env bash
# Measures reading and writing tokens against llama.cpp and PyTorch on this machine, in turns, and tables the ratios.
# bench_rivals.sh [--write docs/performance.md] [--rounds 3] [--lengths 512,4096,16384] [--models smollm2,gemma] [--no-torch]
# Fetches and builds the rivals once (about 1 GB and 10 minutes); nothing of them is installed on the system.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

for argument in "$@"; do
  [[ $argument != --help && $argument != -h ]] || exec python3 "$root/tools/bench_rivals.py" --help
done
if ! python3 -m pip --version >/dev/null 2>&1 || ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
  need python3 python3-pip python3-venv ca-certificates
fi
"$root/scripts/build.sh"
"$root/scripts/fetch_models.sh"
exec python3 "$root/tools/bench_rivals.py" --cache "$cache" --root "$root" "$@"
