#!/usr/bin/env bash
# The main job: every table, figure and claim of the paper, and with data the whole evaluation.
#
#   ./run_all.sh                                  generates one conversation per size, evaluates all memories on them, runs
#                                                 notebooks 00 to 14; published tables, Figures 3 to 5, the claims audit
#   ./run_all.sh --sizes 100k --conversations 5   five short conversations instead
#   ./run_all.sh --data FOLDER                    the same on the conversations in FOLDER, without generating any
#   ./run_all.sh --data FOLDER --sizes 100k,1m    only these tiers
#   ./run_all.sh --download --sizes 100k          fetch the released data first (pinned revision)
#   ./run_all.sh --memorycode FOLDER              MemoryCode's dialogues and outputs in FOLDER (default: data/memorycode, if there)
#   ./run_all.sh --meme FOLDER                    MEME's episodes in FOLDER (default: data/meme, if there)
#   ./run_all.sh --figures 3,4                    draws these figures of the paper and of the run, and does nothing else
#   ./run_all.sh --help                           all options
#
# Everything is written to runs/<name>/ (--name, by default "default"); figures are copied to figures/ as well.
# The same command resumes and skips what is finished. Each step can run alone: --step NAME, with the same options.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/scripts/venv.sh"
(cd "$here" && ensure_venv "")
export HF_HUB_DISABLE_TELEMETRY=1

# Prints the plan and its cost and asks for confirmation if models are called. Then the steps, in this order:
#   conversations   generates them in runs/<name>/generated, unless --data names a folder
#   evaluate        every memory reads each conversation and recalls for each question; the reader answers, the judge judges
#   notebooks       executes the notebooks: tables, figures, claims
#   page            joins all sizes and writes the page, runs/<name>/index.html
# In place of this shell, whose environment, with the keys in it, every program of the user could read.
exec "$here/.venv/bin/beamlib" run-all "$@" # in the caller's folder, so that a relative --data means what it says
