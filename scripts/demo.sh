#!/usr/bin/env bash
# From a clone to the answer: builds, fetches a model that was trained to read 8,192 tokens, measures what repairs it beyond.
# Running it again resumes: what is built, fetched or measured stays.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

to=16k
budget=6m
out=demo-report
while (($# > 0)); do
  case $1 in
    --to) to=${2:?--to needs a length} && shift 2 ;;
    --budget) budget=${2:?--budget needs a time} && shift 2 ;;
    --out) out=${2:?--out needs a folder} && shift 2 ;;
    --help | -h)
      echo "usage: scripts/demo.sh [--to 16k] [--budget 6m] [--out demo-report]"
      exit 0
      ;;
    *) die "demo.sh: expected --to, --budget or --out, but got: $1" ;;
  esac
done

"$root/scripts/build.sh"
"$root/scripts/fetch_models.sh" smollm2 plays
"$root/build/ropewalk" extend "$cache/smollm2-135m-instruct-q4_1.gguf" --to "$to" \
  --text "$cache/plays/hamlet_gut_f.txt" --budget "$budget" --out "$out"
say ""
say "The report: $(realpath "$out")/report.html (one file; open it in a browser)"
