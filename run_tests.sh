#!/usr/bin/env bash
# All checks: style, types, tests. Arguments go to pytest: ./run_tests.sh tests/scoring -k tau
#
# --slow adds the slow tests (signal storms, the cluster, whole sweeps), as CI does; the last lines say how many were left out.
# Tests that need real conversations look for BEAM_DATA, else ../shared/data/beam, else skip and say so; those that need real
# MemoryCode dialogues for MEMORYCODE_DATA, else ../shared/data/memorycode.
# --local adds the tests against a real llama.cpp server with a 135M model (docs/local.md); scripts/local_env.sh makes its
# environment (330 MB). --slow adds them, too, where the package registry can be reached.
# --vllm adds the tests against a real vLLM server on this machine; scripts/vllm_env.sh makes its environment (2 GB).
# --hypothesis-seed=random draws other examples of properties than the ones that are drawn each time.
# --adapters adds those of real Mem0, LangMem and Graphiti; scripts/adapters_env.sh makes their environments (1 GB, 5 minutes).
set -euo pipefail
cd "$(dirname "$0")"
source scripts/venv.sh
ensure_venv "[dev]"
processes=4
for argument in "$@"; do
    if [ "$argument" = --vllm ]; then
        bash scripts/vllm_env.sh
        processes=0 # one server at a time: it takes both cores
    elif [ "$argument" = --local ]; then
        bash scripts/local_env.sh
    elif [ "$argument" = --slow ]; then
        bash scripts/local_env.sh || echo "the tests against a real llama.cpp server are skipped." >&2
    elif [ "$argument" = --adapters ]; then
        bash scripts/adapters_env.sh
    fi
done
export HF_HUB_OFFLINE=1 # a test must never wait for a network
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy & # beside the tests, which wait for a third of their time
types=$!
trap 'kill "$types" 2>/dev/null || true' EXIT
# Four processes, a file of tests each: on two cores, as so much of the time is waited for, and fixtures of a file are
# made once. Files come in the order of tests/conftest.py, the long ones first, not in that of how many tests they have.
failed=0
.venv/bin/pytest -n "$processes" --dist loadfile --no-loadscope-reorder "$@" || failed=$?
wait "$types" || failed=$?
exit "$failed"
