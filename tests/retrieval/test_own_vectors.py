"""Evidence recall with the vectors of one's own encoder: nobody reads or judges, and no text is embedded twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import beamlib
from beam_commands import own_vectors
from beam_commands.measuring import evidence_rows
from commands import Call
from scripted_server import Answer, ScriptedServer, error_body, vectors

EXAMPLE = str(Path(beamlib.__file__).parent / "data" / "example")
ASKED = ("evidence", "--data", EXAMPLE, "--retriever", "dense,bm25", "--arm", "rag", "--k", "5", "--json")


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(own_vectors, "RUNS", tmp_path)
    return tmp_path


@pytest.mark.usefixtures("short_pauses", "stored")
def test_what_is_quoted_is_what_is_sent_and_nothing_is_sent_twice(called: Call) -> None:
    seen: list[str] = []

    def embed(body: dict[str, Any]) -> Answer:
        seen.extend(body["input"])
        return vectors(body, 24)

    with ScriptedServer(lambda body: Answer(error_body("no reader here"), 500), embed=embed) as server:
        encoder = ("--base-url", server.base_url, "--model", "e5", "--query-prefix", "query: ")
        refused = called(*ASKED, *encoder, "--passage-prefix", "passage: ")
        assert refused.returncode == 2 and "add --yes" in refused.stderr and not server.requests
        shown = called(*ASKED, *encoder, "--passage-prefix", "passage: ", "--yes")
        assert shown.returncode == 0, shown.stderr
        assert f"{len(seen):,} texts to embed (0 held)" in shown.stdout and "price unknown" in shown.stdout
        assert {text.partition(": ")[0] for text in seen} == {"query", "passage"}
        questions = sum(text.startswith("query: ") for text in seen)
        assert len(server.requests) <= 2 + len(seen) // 60 + 2, "questions share requests"
        again = called(*ASKED, *encoder, "--passage-prefix", "passage: ")
        assert again.returncode == 0 and len(set(seen)) == len(seen) and questions >= 18
    rows = json.loads(again.stdout[again.stdout.index("[") :])
    plain = evidence_rows(Path(EXAMPLE), ["100K"], ["rag"], ["bm25"], [5], quiet=True)
    by_words = [row["recall"] for row in rows if row["retriever"] == "bm25"]
    assert by_words == pytest.approx([row["recall"] for row in plain])


@pytest.mark.usefixtures("short_pauses", "stored")
def test_an_encoder_that_cannot_be_asked_is_one_sentence(called: Call) -> None:
    with ScriptedServer(lambda body: "x", embed=lambda body: Answer(error_body("glomp"), 403)) as server:
        shown = called(*ASKED, "--base-url", server.base_url, "--model", "e5", "--yes")
    assert shown.returncode == 2 and "glomp" in shown.stderr and "Traceback" not in shown.stderr
    for options, said in (
        (("--model", "e5"), "--base-url"),
        (("--base-url", "http://127.0.0.1:1/v1"), "--model"),
        (("--query-prefix", "q"), "--base-url"),
    ):
        wrong = called(*ASKED, *options)
        assert wrong.returncode == 2 and said in wrong.stderr
