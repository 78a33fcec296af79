#!/usr/bin/env bash
# Makes environments for memory systems of others, one each: .venv-mem0, .venv-langmem, .venv-graphiti. Safe to repeat.
#
#   scripts/adapters_env.sh mem0 langmem    only these; without names all three
#
# They could share the project's .venv (pip install -e ".[mem0]"); apart, nothing that they bring can change it. Versions are
# those of the extras in pyproject.toml. Graphiti needs Python 3.12 or 3.13, for its embedded FalkorDB Lite, which takes
# three minutes to build. PYTHON=/path/to/python names another interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."

refuse() {
    echo "adapters_env.sh: $1" >&2
    exit 2
}

names="${*:-mem0 langmem graphiti}"
for name in $names; do
    case "$name" in mem0 | langmem | graphiti) ;; *) refuse "'$name' is none of mem0, langmem, graphiti." ;; esac
done

newest() { # the newest Python from 3.12 on that answers, else the usual one
    for candidate in python3.13 python3.12 "$HOME"/.pyenv/versions/3.13*/bin/python "$HOME"/.pyenv/versions/3.12*/bin/python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo python3
}

for name in $names; do
    environment=".venv-$name"
    stamp="$environment/made-$(cat scripts/adapters_env.sh pyproject.toml | cksum | cut -d' ' -f1)"
    if [ -e "$stamp" ]; then
        echo "$environment is complete."
        continue
    fi
    python="${PYTHON:-$([ "$name" = graphiti ] && newest || echo python3)}"
    echo "Making $environment with $("$python" --version)"
    [ -x "$environment/bin/python" ] || "$python" -m venv "$environment"
    # The extra's own lines: the project itself is not installed there.
    "$python" - "$name" <<'END' >"$environment/requirements.txt"
import sys, tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"][sys.argv[1]], sep="\n")
END
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check -r "$environment/requirements.txt" 2>&1 |
        { grep -v "is ignored: it is neither a file nor a directory" || true; }
    "$environment/bin/python" packages/beam_memories/adapters/host.py "$name" --describe | grep -q '"missing": \[\]' ||
        refuse "$name was installed into $environment and is not complete; remove the folder and run this again."
    touch "$stamp"
    echo "$environment is complete."
done
