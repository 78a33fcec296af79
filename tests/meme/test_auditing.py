"""Quality control of model-written episodes: planted faults are rejected, then repaired or reported."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from beam_meme.auditing import ANNOTATION, AUDIT, THIRD_PERSON, AuditCheck, audit_prompts, tell_audited
from beam_meme.drawing import Drawn, draw_all
from beam_meme.episode_files import load_episodes
from beam_meme.episode_generating import EpisodeOptions, generate_episodes
from beamlib.errors import UserError
from beamlib.files import read_json
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, run
from beamlib.places import RECORD
from scripted_server import ScriptedServer, body_text
from served_author import models_file

DRAWN = draw_all(2, 42)
CHECKS = ("annotation", "person", *get_args(AuditCheck))
REASON = "a reason that only the auditor may know"
_AWAY = {"my": "the person's", "I": "the person", "me": "the person", "our": "the team's", "we": "the team"}
_BACK = {"the person's": "my", "the person": "I", "the team's": "our", "the team": "we"}


def _reworded(text: str, words: dict[str, str]) -> str:
    pattern = "|".join(map(re.escape, words))
    return re.sub(
        rf"(?<!\w)(?i:{pattern})(?!\w)", lambda match: words.get(match[0], words.get(match[0].lower(), "?")), text
    )


def _between(text: str, tag: str) -> list[str]:
    return text.rpartition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0].split("\n")


def _untold(line: str) -> str:
    return re.sub(r"^\d+\. ", "", line)


class Roles:
    """Speaker, detector and auditor by the text of a prompt.

    The speaker plants `plants[value]`, the name of a check, in the message that tells the fact with that value (a rule
    if the name begins with `if `), until it is told that a writing was rejected; those in `persistent` for ever.
    """

    def __init__(self, plants: dict[str, str], persistent: bool = False, audit: str = "") -> None:
        self.plants, self.persistent, self.audit = plants, persistent, audit
        self.complaints: list[str] = []

    def __call__(self, text: str) -> str:
        if "Rewrite each in the third person" in text:
            return json.dumps({"facts": [_reworded(_untold(fact), _AWAY) for fact in _between(text, "facts")]})
        if "You annotate a conversation" in text:
            return f"```json\n{json.dumps({'lines': self._lines(text)})}\n```"
        if "You audit data" in text:
            return self.audit or json.dumps({"issues": self._issues(text)})
        if "<fact>" in text:
            return self._message(text)
        return "Thanks, that is noted."

    def _message(self, text: str) -> str:
        fact = _between(text, "fact")[0]
        assert not re.search(r"\b(?:I|my|our)\b", fact)
        plant = next((check for value, check in self.plants.items() if value in fact), "")
        repaired = "writing was rejected" in text
        if repaired:
            self.complaints.append(text.rpartition("</must>")[2])
        if not plant or (repaired and not self.persistent):
            return f"By the way. {_reworded(fact, _BACK)} Any tips?"
        return f"By the way. {_reworded(fact, _BACK)} {'As the person says.' if plant == 'person' else f'Sic {plant}.'}"

    def _lines(self, text: str) -> dict[str, int | None]:
        lines = [line for line in _between(text, "session") if "USER: " in line]
        return {
            str(at): None if "Sic annotation." in line else int(line.partition(".")[0])
            for at, line in enumerate(lines, start=1)
        }

    def _issues(self, text: str) -> list[dict[str, Any]]:
        issues = []
        for at, line in enumerate([line for line in _between(text, "session") if "USER: " in line], start=1):
            if plant := re.search(r"Sic (\w+)\.", line):
                issues.append({"fact": at, "check": plant[1], "severity": "high", "reason": REASON})
            issues.append({"fact": at, "check": "keyword", "severity": "medium"})
        return issues


def _audited_models(tmp_path: Path, base_url: str) -> Path:
    path = models_file(tmp_path / "models.json", base_url)
    values = read_json(path)
    path.write_text(json.dumps({**values, "auditor": values["judge"]}))
    return path


def _plants(drawn: Drawn) -> dict[str, str]:
    """One check for each of some facts: what rules and annotation reject in sessions of their own."""
    sessions: dict[str, list[str]] = {}
    for fact in drawn.facts:
        if not fact.verbatim and fact.kind not in ("update", "deletion"):
            sessions.setdefault(fact.part, []).append(fact.value)
    audited = [*sessions["1b"], *sessions["2"], *sessions["change"]]
    values = [sessions["1a"][0], sessions["1c"][0], *dict.fromkeys(audited)]
    return dict(zip(values, CHECKS, strict=False))


def test_a_planted_fault_of_each_check_is_rejected_and_repaired_and_nothing_is_asked_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roles = Roles(_plants(DRAWN[0]))
    assert sorted(roles.plants.values()) == sorted(CHECKS)
    with ScriptedServer(lambda body: roles(body_text(body))) as server:
        models = _audited_models(tmp_path, server.base_url)
        order = EpisodeOptions(tmp_path / "set", count=2, variants=("nofiller",), models=models)
        with pytest.raises(UserError, match="add --yes"):
            generate_episodes(order)
        estimate = capsys.readouterr().out
        assert not server.requests
        assert "detector scripted: about 10 calls" in estimate and "auditor scripted: about 10 calls" in estimate
        generate_episodes(replace(order, yes=True))
        printed = capsys.readouterr().out
        calls = len(server.requests)
        written = (tmp_path / "set/nofiller.json").read_bytes()
        (tmp_path / "set/nofiller.json").unlink()
        generate_episodes(replace(order, yes=True))
        assert len(server.requests) == calls and not server.repeated()
    assert (tmp_path / "set/nofiller.json").read_bytes() == written
    assert b"Sic " not in written and b"the person" not in written
    record = read_json(tmp_path / "set" / RECORD)
    row = record["variants"][0]
    assert row["rejections"] == dict.fromkeys(sorted(CHECKS), 1)
    assert row["rejections_by_episode"] == {"pl_001": row["rejections"]} | row["rejections_by_episode"]
    assert row["given_up"] == {} and row["episodes"] == 2 and row["messages_by_rules"] == 0
    assert row["facts_in_first_person"] == 0
    assert set(record["order"]["author"]) == {"speaker", "detector", "auditor"}
    assert {THIRD_PERSON, ANNOTATION, AUDIT} < set(record["order"]["prompts"])
    assert "1 contradiction" in printed and "0 episodes given up" in printed
    assert len(roles.complaints) >= len(CHECKS) and REASON not in "".join(roles.complaints)


@pytest.mark.parametrize("check", CHECKS)
def test_a_fault_that_stays_gives_the_episode_up_with_the_reason(
    check: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = next(fact for fact in DRAWN[0].facts if fact.kind == "root")
    roles = Roles({root.value: check}, persistent=True)
    with ScriptedServer(lambda body: roles(body_text(body))) as server:
        models = _audited_models(tmp_path, server.base_url)
        generate_episodes(EpisodeOptions(tmp_path / "set", 2, ("nofiller",), models=models, yes=True))
    row = read_json(tmp_path / "set" / RECORD)["variants"][0]
    assert row["rejections_by_episode"] == {"pl_001": {check: 3}}
    assert row["given_up"] == {"pl_001": f"part 1c, {root.entity}: {check}"}
    assert [one.episode.id for one in load_episodes(tmp_path / "set", "nofiller")] == ["sw_001"]
    assert f"pl_001 is left out, part 1c, {root.entity}: {check}" in capsys.readouterr().out
    assert "A first writing" in roles.complaints[0] and "A second writing" in roles.complaints[-1]


def test_a_set_without_an_episode_that_passed_is_not_written(tmp_path: Path) -> None:
    roles = Roles({}, audit="I see nothing wrong.")
    with ScriptedServer(lambda body: roles(body_text(body))) as server:
        models = _audited_models(tmp_path, server.base_url)
        with pytest.raises(UserError, match="no episode passed the audit"):
            generate_episodes(EpisodeOptions(tmp_path / "set", 2, ("nofiller",), models=models, yes=True))
    assert not (tmp_path / "set/nofiller.json").exists()


class Player:
    """A model that answers by `say(prompt)` and counts prompts by id."""

    name = "player"

    def __init__(self, say: Callable[[str], str], **replies: str | ModelError) -> None:
        self.say, self.replies = say, replies
        self.heard: list[str] = []

    async def complete(self, prompt: Prompt) -> Completion:
        self.heard.append(prompt.id)
        reply = self.replies.get(prompt.id)
        if isinstance(reply, ModelError):
            raise reply
        text = "\n".join(message["content"] for message in prompt.messages)
        return Completion(reply if reply is not None else self.say(f"{text}\n{prompt.complaint}"))

    def roles(self) -> dict[str, Player]:
        return dict.fromkeys(("speaker", "detector", "auditor"), self)


def test_what_was_repaired_stays_repaired_when_another_check_rejects_the_session() -> None:
    first, second, *_ = [fact.value for fact in DRAWN[0].facts if fact.part == "1a"]
    result = run(tell_audited(DRAWN[0], Player(Roles({first: "annotation", second: "value"})).roles()))
    assert result.rejections == {"annotation": 1, "value": 1} and not result.given_up


def _auditor(patience: float) -> tuple[Player, list[str]]:
    """Roles whose auditor accepts a session once it has rejected it `patience` times, each time for another fact."""
    roles, seen = Roles({}), list[str]()

    def say(text: str) -> str:
        if "You audit data" not in text:
            return roles(text)
        facts = len(_between(text, "facts"))
        session = _between(text, "facts")[0]
        before = seen.count(session)
        seen.append(session)
        if before >= patience:
            return json.dumps({"issues": [{"fact": 1, "check": "keyword", "severity": "medium"}]})
        return json.dumps({"issues": [{"fact": before % facts + 1, "check": "contradiction", "severity": "high"}]})

    return Player(say), seen


@pytest.mark.parametrize(
    ("patience", "writings", "passes"),
    [(0, 1, True), (1, 2, True), (2, 3, True), (3, 3, False), (float("inf"), 3, False)],
)
def test_an_auditor_that_accepts_rejects_twice_or_never_ends(patience: float, writings: int, passes: bool) -> None:
    player, seen = _auditor(patience)
    result = run(tell_audited(DRAWN[0], player.roles()))
    assert {seen.count(session) for session in seen} == {writings}
    assert bool(result.given_up) is not passes
    assert sum(result.rejections.values()) == 5 * min(patience, 3)
    assert len(result.sessions) == 5 and "the person" not in str(result.sessions)


def test_an_accepted_set_is_written_whole_by_a_served_auditor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    player, _ = _auditor(2)
    with ScriptedServer(lambda body: player.say(body_text(body))) as server:
        models = _audited_models(tmp_path, server.base_url)
        generate_episodes(EpisodeOptions(tmp_path / "set", 2, ("nofiller",), models=models, yes=True))
    row = read_json(tmp_path / "set" / RECORD)["variants"][0]
    assert row["given_up"] == {} and row["episodes"] == 2 and row["rejections"] == {"contradiction": 20}
    assert {one.episode.id for one in load_episodes(tmp_path / "set", "nofiller")} == {"pl_001", "sw_001"}
    assert "0 episodes given up" in capsys.readouterr().out


NO_AUDIT = (
    "",
    "Everything is fine.",
    "[]",
    '{"status": "ALL_PASS"}',
    '{"issues": []} {"issues": [{"fact": 1, "check": "value", "severity": "low"}]}',
    '{"issues": [], "issues": []}',
    '{"issues": [], "issue": [{"fact": 1}]}',
    '{"issues": [{"fact": 0, "check": "value", "severity": "low"}]}',
    '{"issues": [{"fact": 99, "check": "value", "severity": "high"}]}',
    '{"issues": [{"fact": "1", "check": "value", "severity": "high"}]}',
    '{"issues": [{"fact": 1, "check": "style", "severity": "high"}]}',
    '{"issues": [{"fact": 1, "check": "value", "severity": "none"}]}',
    "[" * 10_000,
    '{"issues": []}' + " " * 5 + "x" * 30_000,
    json.dumps({"issues": [{"fact": 1, "check": "value", "severity": "low"}] * 101}),
)


@pytest.mark.parametrize("reply", NO_AUDIT, ids=range(len(NO_AUDIT)))
def test_an_audit_that_cannot_be_read_is_asked_again_and_never_passes(reply: str) -> None:
    player = Player(Roles({}), **{AUDIT: reply})
    result = run(tell_audited(DRAWN[0], player.roles()))
    assert result.rejections == {"unverified": 5}
    assert result.given_up.startswith("part 1a, audit ")
    assert player.heard.count(AUDIT) == 10


@pytest.mark.parametrize("reply", ["none", '{"lines": {"1": 2}}', '{"lines": {"1": "2"}}', '{"lines": [2, 4, 6, 8]}'])
def test_an_annotation_that_cannot_be_read_never_passes(reply: str) -> None:
    player = Player(Roles({}), **{ANNOTATION: reply})
    result = run(tell_audited(DRAWN[0], player.roles()))
    assert result.rejections == {"unverified": 5} and "annotation" in result.given_up
    assert AUDIT not in player.heard


def test_a_refused_check_is_unverified_and_an_endpoint_that_is_away_ends_the_run() -> None:
    refused = Player(Roles({}), **{AUDIT: ModelError("no", Outcome.FILTERED)})
    assert run(tell_audited(DRAWN[0], refused.roles())).rejections == {"unverified": 5}
    with pytest.raises(ModelError):
        run(tell_audited(DRAWN[0], Player(Roles({}), **{AUDIT: ModelError("no", Outcome.UNAVAILABLE)}).roles()))


@pytest.mark.parametrize("spoil", ["x", '{"facts": []}', "first person", "lost value"])
def test_a_third_person_that_cannot_be_used_is_counted_and_the_facts_stay_as_they_are(spoil: str) -> None:
    def say(text: str) -> str:
        if "Rewrite each in the third person" in text:
            facts = [_untold(fact) for fact in _between(text, "facts")]
            replies = {"first person": facts, "lost value": [fact[:20] for fact in facts]}
            return json.dumps({"facts": replies[spoil]}) if spoil in replies else spoil
        if "<fact>" in text:
            return f"By the way. {_between(text, 'fact')[0]} Any tips?"
        return roles(text)

    roles = Roles({})
    player = Player(say)
    result = run(tell_audited(DRAWN[0], player.roles()))
    assert not result.given_up
    assert result.first_person == sum(not fact.verbatim for fact in DRAWN[0].facts)
    assert player.heard.count(THIRD_PERSON) == 10


def test_the_estimate_lists_what_is_asked_where_nothing_is_rejected() -> None:
    for drawn in DRAWN:
        player = Player(Roles({}))
        assert run(tell_audited(drawn, player.roles())).rejections == {}
        prompts = audit_prompts(drawn)
        assert sorted(player.heard) == sorted(prompt.id for own in prompts.values() for prompt in own)
