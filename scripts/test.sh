#!/usr/bin/env bash
# Builds and runs the tests. The arguments go to ctest; --models adds the tests on real models, and fetches the models.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

models=no
arguments=()
for argument in "$@"; do
  case $argument in
    --models) models=yes ;;
    --help | -h)
      echo "usage: scripts/test.sh [--models] [ctest arguments]"
      echo "  --models   also the tests on real models (fetched first; 360 MB)"
      echo "  e.g. scripts/test.sh -R Rotary        scripts/test.sh --rerun-failed --output-on-failure"
      exit 0
      ;;
    *) arguments+=("$argument") ;;
  esac
done

"$root/scripts/build.sh"
if [[ $models == yes ]]; then
  "$root/scripts/fetch_models.sh"
else
  arguments+=(--label-exclude models)
fi
cd "$root/build"
exec ctest --output-on-failure --parallel "$(nproc)" "${arguments[@]}"
