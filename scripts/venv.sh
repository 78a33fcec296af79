# Sourced by run_all.sh and run_tests.sh: makes .venv and installs this package into it, only when something is missing.
# ensure_venv EXTRAS   with EXTRAS "" (what the main job needs) or "[dev]" (what the tests need as well)
# All versions are those of requirements.lock (scripts/lock.sh).

# Nothing is compiled at install (see below), so what is imported has to stay compiled, whatever the caller's setting.
unset PYTHONDONTWRITEBYTECODE

ensure_venv() {
    local extras="$1" python="${PYTHON:-python3}"
    [ ! -x .venv/bin/python ] || python=.venv/bin/python
    if ! "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
        echo "This project needs Python 3.11 to 3.14, and '$python' is not one: install it, or name one with PYTHON=/path/to/python." >&2
        exit 2
    fi
    venv_is_ready "$extras" || locked "$python" make_venv "$extras" "$python"
}

# Another list of packages is another install: an editable one finds those that were there.
stamp() { echo ".venv/beamlib-$({ cat pyproject.toml requirements.lock scripts/venv.sh && ls packages; } | cksum | cut -d' ' -f1)"; }

# The tests' set holds everything of the main job's, so either stamp will do for the main job.
venv_is_ready() { [ -e "$(stamp)-dev" ] || { [ -z "$1" ] && [ -e "$(stamp)-main" ]; }; }

# locked PYTHON FUNCTION ARGUMENTS...: one process at a time. The system frees the lock when its holders have ended, however
# they end; by Python, as macOS has no flock command.
locked() {
    local python="$1"
    shift
    mkdir -p .venv
    "$python" -c '
import fcntl, subprocess, sys
with open(".venv/lock", "w") as lock:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("Waiting for another run that installs into .venv", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    sys.exit(subprocess.run(sys.argv[1:], pass_fds=[lock.fileno()]).returncode)
' bash -euo pipefail -c 'source scripts/venv.sh; "$@"' - "$@"
}

make_venv() {
    local extras="$1" python="$2"
    ! venv_is_ready "$extras" || return 0 # another run has just made it
    if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then # none, or what a run that was killed left of one
        echo "Making .venv with $("$python" --version)"
        "$python" -m venv .venv
    fi
    # --no-compile: modules are compiled as they are first imported, which spares most of them and half the time.
    echo "Installing beamlib$extras and its dependencies into .venv (about a minute)"
    .venv/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint requirements.lock \
        --editable ".$extras" 2>&1 |
        { grep -v "is ignored: it is neither a file nor a directory" || true; }
    touch "$(stamp)-$([ -n "$extras" ] && echo dev || echo main)"
}
