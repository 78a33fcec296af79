#!/usr/bin/env bash
# SHA-256 of the JSON and text files of released conversations, as beamlib/data/released.csv lists them:
#
#   scripts/released_checksums.sh CHATS... > beamlib/data/released.csv
#
# CHATS are folders laid out like the released chats/ (100K/1/chat.json, ...), all of the same commit of the repository.
set -euo pipefail
echo file,sha256
for folder in "$@"; do
  (cd "$folder" && find . -type f \( -name '*.json' -o -name '*.txt' \) -exec sha256sum {} +)
done | sed -E 's|^([0-9a-f]{64})  \./(.*)$|\2,\1|' | LC_ALL=C sort -uV
