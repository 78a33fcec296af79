#!/usr/bin/env bash
# Makes a release archive of the committed state, ready for a DOI: source, shipped measurements, checksums.
# scripts/release.sh [FOLDER]   by default dist/
set -euo pipefail
out="$(mkdir -p "${1:-dist}" && cd "${1:-dist}" && pwd)"
cd "$(dirname "$0")/.."
if [ -n "$(git status --porcelain)" ]; then
    echo "release: the working tree has changes that are not committed: commit or stash them first." >&2
    exit 2
fi
version="$(sed -n 's/^version: //p' CITATION.cff)"
name="beam-light-$version"
git archive --format=tar --prefix="$name/" HEAD | gzip -9 -n >"$out/$name.tar.gz"
git rev-parse HEAD >"$out/$name.commit"
tar -xzOf "$out/$name.tar.gz" "$name/beamlib/data/measured/retrieval.jsonl.xz" >"$out/retrieval.jsonl.xz"
(cd "$out" && sha256sum "$name.tar.gz" "$name.commit" retrieval.jsonl.xz >"$name.sha256")
echo "$out/$name.tar.gz, with $name.sha256"
