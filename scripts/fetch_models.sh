#!/usr/bin/env bash
# Fetches the models and texts of the demo and of the model tests into the cache, once, verified by checksum.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

python3 -m pip --version >/dev/null 2>&1 || need python3 python3-pip ca-certificates
exec python3 "$root/tools/fetch_models.py" --cache "$cache" "$@"
