#!/usr/bin/env bash
# All checks: style, types, tests. Arguments go to pytest: ./run_tests.sh tests/scoring -k tau
#
# Tests that need real conversations look for BEAM_DATA, else ../shared/data/beam, else skip and say so.
set -euo pipefail
cd "$(dirname "$0")"
source scripts/venv.sh
ensure_venv "[dev]"
export HF_HUB_OFFLINE=1 # a test must never wait for a network
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
.venv/bin/pytest "$@"
