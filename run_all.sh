#!/usr/bin/env bash
# The main job: every table, figure and claim of the paper, and with data the whole evaluation.
#
#   ./run_all.sh                                  generates one conversation per size, evaluates all memories on them, runs
#                                                 notebooks 00 to 13; published tables, Figures 3 to 5, the claims audit
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
# Issuing the same command again redoes nothing that is finished. Each step below can be run alone, by the same options.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/scripts/venv.sh"
source "$here/scripts/step.sh"
(cd "$here" && ensure_venv "")
export HF_HUB_DISABLE_TELEMETRY=1
beamlib="$here/.venv/bin/beamlib" # called in the caller's folder, so that a relative --data means what it says

case " $* " in *" --help "* | *" --figures"*) exec "$beamlib" run-all "$@" ;; esac # these are done in no time

# 0. Say what is going to be done, and what all of it would cost; ask where models are to be called. Without a yes it ends here.
step "$beamlib" run-all "$@" --step check
set -- "$@" --announced

# 1. Conversations: those in --data, or new ones with plans, turns and probing questions, in runs/<name>/generated.
step "$beamlib" run-all "$@" --step conversations

# 2. Every memory reads each conversation and recalls for each question; the reader answers, the judge judges.
step "$beamlib" run-all "$@" --step evaluate

# 3. The notebooks show it: tables, figures, claims.
step "$beamlib" run-all "$@" --step notebooks

# 4. All sizes put together, and one page over everything: runs/<name>/index.html.
step "$beamlib" run-all "$@" --step page
