#!/usr/bin/env bash
# Writes requirements.lock anew, the versions of all packages for Python 3.11 to 3.14 and every system; run it where
# pyproject.toml names other packages. Versions that still fit stay; scripts/lock.sh --upgrade takes the newest.
# It needs uv (python -m pip install uv). Adapters of other memory systems have pins of their own (scripts/adapters_env.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v uv >/dev/null; then
    echo "lock: uv is not installed: python -m pip install uv, and run this again." >&2
    exit 2
fi
exec uv pip compile --universal --python-version 3.11 --extra dev --extra models --custom-compile-command scripts/lock.sh \
    --quiet --output-file requirements.lock "$@" pyproject.toml
