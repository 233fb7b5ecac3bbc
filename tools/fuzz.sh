#!/usr/bin/env bash
# fuzz.sh BUILD_FOLDER SECONDS: runs every libFuzzer target for that long, as many at a time as there are cores, from the seeds that
# fuzz/make_seeds.py makes. The random numbers start from FUZZ_SEED (default 1), so that a check that passed does not fail by chance;
# search with others. What fails is left in BUILD_FOLDER as crash-*; running the target on it shows the failure again.
set -euo pipefail
build=$(cd "$1" && pwd)
seconds=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

one() {
  local target=$1 name corpus
  name=$(basename "$target")
  corpus=$build/corpus-$name
  mkdir -p "$corpus"
  local seeds=()
  [[ ! -d $build/seeds/${name%_fuzz} ]] || seeds=("$build/seeds/${name%_fuzz}")
  local log=$build/$name.log
  # 2 GB and 10 s an input: a length that a file only claims must not be believed.
  if "$target" -seed="${FUZZ_SEED:-1}" -max_total_time="$seconds" -rss_limit_mb=2048 -malloc_limit_mb=1024 -timeout=10 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$build/crash-$name-" "$corpus" "${seeds[@]}" >"$log" 2>&1 </dev/null; then
    printf '%s: %s inputs, none failed\n' "$name" "$(awk '/number_of_executed_units/ { print $2 }' "$log")"
  else
    tail -n 60 "$log"
    printf '%s: FAILED\n' "$name"
    return 1
  fi
}
export -f one
export build seconds
python3 "$root/fuzz/make_seeds.py" "$build/seeds"

mapfile -t targets < <(find "$build" -maxdepth 1 -name '*_fuzz' -type f -executable | sort)
if ((${#targets[@]} == 0)); then
  echo "fuzz.sh: expected targets (*_fuzz) in $build, but there is none"
  exit 1
fi
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'set -euo pipefail; one {}'
