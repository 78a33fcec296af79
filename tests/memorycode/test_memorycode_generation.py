"""Generated dialogues: what the offline writer says, spoilt replies of a server, a kill, the same bytes each time."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beam_memorycode.bank import take_apart
from beam_memorycode.dialogue_files import load_dialogues
from beam_memorycode.dialogues import Dialogue, DialogueSession, Setting, Topic
from beam_memorycode.generating import (
    CALLS,
    DATASET,
    RECORD,
    TOPICS,
    GenerateOptions,
    check_conversation,
    conversation_prompt,
    generate_dialogues,
    hold_conversations,
    list_requests,
    split_turns,
)
from beam_memorycode.offline_writer import SESSION_WORDS, WRITER_PROMPT, OfflineWriter
from beam_memorycode.templates import draw_template
from beamlib.errors import UserError
from beamlib.llm.model import OFFLINE_NAME, ModelError, Prompt, run
from beamlib.llm.prompts import prompt_file
from scripted_server import ScriptedServer, body_text
from served_author import models_file

WHO = Setting("Ada", "Grace", "Acme")


def _template(sessions: int, number: int = 1, name: str = "released") -> Dialogue:
    return draw_template(1, seed=7, name=name, sessions=sessions, number=number).dialogue


def _written(dialogue: Dialogue) -> list[str]:
    texts = run(hold_conversations(OfflineWriter(dialogue), dialogue))
    assert not [text for text in texts if isinstance(text, ModelError)]
    return [str(text) for text in texts]


def _sentences(text: str) -> list[str]:
    turns = [turn.partition(": ")[2] for turn in text.split("\n\n")]
    return [sentence for turn in turns for sentence in re.split(r"(?<=[.!?]) ", turn)]


@pytest.fixture(scope="module")
def hundred() -> tuple[Dialogue, list[str]]:
    dialogue = _template(100)
    return dialogue, _written(dialogue)


def test_conversations_are_as_long_as_the_released_ones(hundred: tuple[Dialogue, list[str]]) -> None:
    dialogue, texts = hundred
    for length, words in SESSION_WORDS.items():
        sizes = [
            len(text.split())
            for session, text in zip(dialogue.sessions, texts, strict=True)
            if session.length == length
        ]
        assert 0.95 * words < sum(sizes) / len(sizes) < 1.05 * words
        assert 0.75 * words < min(sizes) <= max(sizes) < 1.3 * words


def test_a_reader_of_a_hundred_sessions_rarely_meets_a_sentence_again(hundred: tuple[Dialogue, list[str]]) -> None:
    counts = Counter(sentence for text in hundred[1] for sentence in _sentences(text))
    assert len(counts) > 0.9 * sum(counts.values())
    assert max(counts.values()) <= 8


def test_each_instruction_is_stated_once_by_the_mentor_alone(hundred: tuple[Dialogue, list[str]]) -> None:
    dialogue, texts = hundred
    change = re.compile(r"earlier|before|chang|correct|replaces|update|out of date|cross out", re.IGNORECASE)
    for session, text in zip(dialogue.sessions, texts, strict=True):
        turns, problem = split_turns(text, dialogue.context)
        assert problem == ""
        assert [name for name, _ in turns] == [dialogue.context.mentor, dialogue.context.mentee] * (len(turns) // 2)
        mentee = " ".join(words for name, words in turns if name == dialogue.context.mentee)
        assert not re.search(r"\?|'@?\w+'|docstring|annotation|statement|\bdigit", mentee)
        quoted = [name for instruction in session.instructions for name in re.findall(r"'(@?\w+)'", instruction)]
        assert sorted(re.findall(r"'(@?\w+)'", text)) == sorted(quoted)
        sentences = [sentence for _, words in turns for sentence in re.split(r"(?<=[.!?]) ", words)]
        for topic in session.topics:
            wording = take_apart(topic.text)
            if wording is not None:
                stating = [sentence for sentence in sentences if wording.stated_in(sentence)]
                assert len(stating) == 1 or len(session.mentions) > 1, stating
                assert topic.type == "instruction-add" or any(change.search(sentence) for sentence in stating)


def test_the_prompt_shows_no_rule_and_all_that_is_on_the_agenda() -> None:
    dialogue = _template(20)
    assert prompt_file(WRITER_PROMPT).role == "speaker"
    for place, session in enumerate(dialogue.sessions):
        messages = conversation_prompt(dialogue, place).messages
        assert [message["role"] for message in messages] == ["system", "user"]
        text = "\n".join(message["content"] for message in messages)
        assert all(topic.text in text for topic in session.topics)
        assert "^" not in text and ".*" not in text and not any(query in text for query in session.queries)
        assert ("first time", "had one conversation", f"had {place} conversations")[min(place, 2)] in text


def test_the_writer_refuses_what_it_has_no_rules_for() -> None:
    with pytest.raises(ModelError, match=rf"{OFFLINE_NAME}.*no rules for prompt 'answer'"):
        run(OfflineWriter(_template(1)).complete(Prompt("answer", {})))
    odd = DialogueSession((Topic("instruction-add", "always sing"),), (), ("song",), "short")
    dialogue = Dialogue(1, WHO, (odd,), ())
    (error,) = run(hold_conversations(OfflineWriter(dialogue), dialogue))
    assert isinstance(error, ModelError) and "always sing" in str(error)


def test_a_topic_from_elsewhere_is_talked_about() -> None:
    session = DialogueSession((Topic("filler-update", "the lighthouse of Alexandria"),), (), (), "short")
    assert "the lighthouse of Alexandria" in _written(Dialogue(1, WHO, (session,), ()))[0]


GOOD = "Ada: Start each function name with 'a_'.\n\nGrace: Noted."


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (GOOD, ""),
        ("**Ada:** Start each function name with `a_`.\nIn all files.\n\n**Grace:** Noted.", ""),
        ("", "Ada says nothing"),
        ("Ada: Start each function name with 'a_'.", "Grace says nothing"),
        (f"Here it is:\n\n{GOOD}", "is not said by Ada or Grace"),
        (f"{GOOD}\n\n[They leave.]", "is not said by Ada or Grace"),
        (f"{GOOD}\n\nBob: Hello there.", "is not said by Ada or Grace"),
        (
            "Ada: Start each function name well.\n\nGrace: With 'a_', noted.",
            "does not say that Grace should always start",
        ),
        ("Ada: Start each variable name with 'a_'.\n\nGrace: Noted.", "does not say that Grace should always start"),
        (f"{GOOD}\n\nAda: And end it with '_b'.\n\nGrace: Yes.", "\"'_b'\" belongs to no instruction"),
        (f"{GOOD}\n\nAda: And write docstrings.\n\nGrace: Yes.", "'docstrings' belongs to no instruction"),
        (f"{GOOD}\n\nAda: Like so: ```x = 1```\n\nGrace: Yes.", "It shows code"),
    ],
)
def test_replies_are_checked(reply: str, says: str) -> None:
    text, complaint = check_conversation(reply, WHO, ["always start function names with 'a_'"])
    assert (says in complaint) if says else complaint == ""
    if not says:
        assert re.fullmatch(r"Ada: .+\n\nGrace: Noted\.", text)


def test_real_conversations_mostly_pass_the_check(memorycode_data: Path) -> None:
    checked: Counter[bool] = Counter()
    for item in load_dialogues(memorycode_data):
        for session in item.dialogue.sessions:
            if session.text is not None:
                _, complaint = check_conversation(session.text, item.dialogue.context, session.instructions)
                assert "does not say" not in complaint
                checked[not complaint] += 1
    assert checked[True] > 0.95 * checked.total()


# --- whole generations ---


def _bytes(folder: Path) -> dict[str, str]:
    paths = [folder / TOPICS, folder / RECORD, *sorted((folder / DATASET).iterdir())]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def test_the_same_order_gives_the_same_bytes_and_loads(tmp_path: Path) -> None:
    order = GenerateOptions(tmp_path / "one", counts=(1, 3, 5), per_count=2)
    assert generate_dialogues(order) == [1, 2, 3, 4, 5, 6]
    generate_dialogues(replace(order, out=tmp_path / "two"))
    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two")
    generate_dialogues(replace(order, out=tmp_path / "three", seed=8))
    assert not set(_bytes(tmp_path / "one").values()) & set(_bytes(tmp_path / "three").values()) - {
        _bytes(tmp_path / "one")[TOPICS]
    }
    items = load_dialogues(tmp_path / "one")
    assert [len(item.dialogue.sessions) for item in items] == [1, 1, 3, 3, 5, 5]
    assert all(item.dialogue.has_texts for item in items)
    assert json.loads((tmp_path / "one" / RECORD).read_text())["order"]["author"] == OFFLINE_NAME


def test_ids_are_numbered_as_published() -> None:
    requests = list_requests(GenerateOptions(Path(), per_count=30))
    assert [request.id for request in requests] == list(range(1, 361))
    assert (requests[209].sessions, requests[210].sessions) == (15, 20)


def test_a_finished_dialogue_is_not_written_again_and_a_missing_one_is(tmp_path: Path) -> None:
    order = GenerateOptions(tmp_path, counts=(1, 2, 3))
    generate_dialogues(order)
    before = _bytes(tmp_path)
    kept, lost = (tmp_path / DATASET / f"dialogue_{number}.json" for number in (1, 2))
    stamp = kept.stat().st_mtime_ns
    lost.unlink()
    assert generate_dialogues(order) == [2]
    assert kept.stat().st_mtime_ns == stamp
    assert _bytes(tmp_path) == before
    kept.write_text(kept.read_text() + "\n")
    with pytest.raises(UserError, match=r"dialogue_1\.json: changed since it was generated"):
        generate_dialogues(order)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"recipe": "stew"}, "recipe: 'stew' does not exist"),
        ({"counts": ()}, "counts: no number"),
        ({"counts": (3, 101)}, "counts: 101"),
        ({"per_count": 0}, "per_count is 0"),
        ({"calls": "never"}, "--calls: 'never' does not exist"),
        ({"calls": "replay"}, "--calls: the offline writer asks no model"),
        ({"prompts": Path("p")}, "--prompts: the offline writer asks no model"),
        ({"models": Path("nowhere.yaml")}, "nowhere.yaml: the file does not exist"),
    ],
)
def test_a_mistake_in_the_order_shows_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(UserError, match=re.escape(says)):
        generate_dialogues(replace(GenerateOptions(tmp_path / "out", counts=(1,)), **changes))
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    order = GenerateOptions(tmp_path / "out", counts=(1,))
    generate_dialogues(order)
    before = _bytes(order.out)
    with pytest.raises(UserError, match=r"holds another order .*seed is 7 there and 8 now"):
        generate_dialogues(replace(order, seed=8))
    assert _bytes(order.out) == before
    (order.out / RECORD).write_text("[]")
    with pytest.raises(UserError, match="not the record of a generation"):
        generate_dialogues(order)
    (order.out / RECORD).unlink()
    with pytest.raises(UserError, match=r"dialogue_1\.json was not generated here"):
        generate_dialogues(order)


class _Speaker:
    """The offline writer behind a server: it knows each prompt of an order by its text, and spoils first replies."""

    def __init__(self, order: GenerateOptions, spoilt: int = 0) -> None:
        self.spoilt = spoilt
        self.prompts: dict[str, tuple[Dialogue, Prompt]] = {}
        self.asked: Counter[str] = Counter()
        for request in list_requests(order):
            dialogue = draw_template(
                request.id, seed=order.seed, name=order.recipe, sessions=request.sessions, number=request.number
            ).dialogue
            for place in range(request.sessions):
                prompt = conversation_prompt(dialogue, place)
                self.prompts["\n".join(message["content"] for message in prompt.messages)] = (dialogue, prompt)

    def __call__(self, body: dict[str, Any]) -> str:
        text = body_text(body)
        known = next(start for start in self.prompts if text.startswith(start))
        self.asked[known] += 1
        dialogue, prompt = self.prompts[known]
        written = run(OfflineWriter(dialogue).complete(prompt)).text
        if self.asked[known] > self.spoilt:
            return written
        spoils = (
            lambda t: f"Sure, here it is!\n\n{t}",
            lambda t: t.partition("\n\n")[0],
            lambda t: f"{t}\n\n(They leave.)",
        )
        return spoils[len(known) % 3](written)


ORDER = GenerateOptions(Path(), counts=(1, 2, 3), per_count=2)


def _served(tmp_path: Path, server: ScriptedServer, **fields: Any) -> GenerateOptions:
    models = models_file(tmp_path / "models.json", server.base_url, **fields)
    return replace(ORDER, out=tmp_path / "served", models=models, yes=True)


def test_a_server_that_spoils_every_first_and_second_reply_changes_no_byte(tmp_path: Path) -> None:
    generate_dialogues(replace(ORDER, out=tmp_path / "offline"))
    with ScriptedServer(_Speaker(ORDER, spoilt=2)) as server:
        order = _served(tmp_path, server)
        assert len(generate_dialogues(order)) == 6
        assert server.repeated() == []
        asked = len(server.requests)
        assert generate_dialogues(order) == []
        assert len(server.requests) == asked
    offline, served = (_bytes(tmp_path / name) for name in ("offline", "served"))
    assert {name: value for name, value in offline.items() if name != RECORD} == {
        name: value for name, value in served.items() if name != RECORD
    }
    # Replayed from the calls alone: nobody listens any more.
    shutil.rmtree(order.out / DATASET)
    generate_dialogues(replace(order, calls="replay", yes=False))
    assert _bytes(order.out) == served


def test_a_reply_that_fails_three_times_leaves_its_dialogue_unwritten_with_the_reason(tmp_path: Path) -> None:
    speaker = _Speaker(ORDER)
    first = next(iter(speaker.prompts))

    def reply(body: dict[str, Any]) -> str:
        return "I would rather not." if body_text(body).startswith(first) else speaker(body)

    with ScriptedServer(reply) as server:
        order = _served(tmp_path, server)
        with pytest.raises(UserError) as caught:
            generate_dialogues(order)
        assert "1 of 6 dialogues are not written" in str(caught.value)
        assert "dialogue 1, session 1 of 1: unreadable reply: asked 3 times" in str(caught.value)
        complaints = [body_text(request.body).count("could not be used") for request in server.requests]
        assert sorted(complaints)[-3:] == [0, 1, 1]
    assert sorted(path.name for path in (order.out / DATASET).iterdir()) == [f"dialogue_{n}.json" for n in range(2, 7)]
    with ScriptedServer(_Speaker(ORDER), port=server.port) as server:
        assert generate_dialogues(replace(order, calls="refresh")) == [1]
        assert len(server.requests) == 1


def test_nothing_is_called_before_yes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedServer(_Speaker(ORDER)) as server:
        order = replace(_served(tmp_path, server), yes=False)
        with pytest.raises(UserError, match="nothing was called: add --yes"):
            generate_dialogues(order)
        assert server.requests == []
    assert "about 12 calls for 6 dialogue(s)" in capsys.readouterr().out
    assert not order.out.exists()


@pytest.mark.slow
def test_a_killed_generation_goes_on_and_pays_nothing_twice(tmp_path: Path) -> None:
    order = replace(ORDER, counts=(10, 15), per_count=1)
    code = (
        "import sys; from pathlib import Path; "
        "from beam_memorycode.generating import GenerateOptions, generate_dialogues; "
        "generate_dialogues(GenerateOptions(Path(sys.argv[1]), counts=(10, 15), models=Path(sys.argv[2]), yes=True))"
    )
    with ScriptedServer(_Speaker(order), latency=0.08) as server:
        models = models_file(tmp_path / "models.json", server.base_url, concurrency=4)
        out = tmp_path / "out"
        process = subprocess.Popen([sys.executable, "-c", code, str(out), str(models)], start_new_session=True)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline and len(server.requests) < 8:
            time.sleep(0.005)
        assert process.poll() is None, "it ended before it was killed"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert not list((out / DATASET).glob("*")) and json.loads((out / RECORD).read_text())["dialogues"] == []
        assert generate_dialogues(replace(order, out=out, models=models, yes=True)) == [1, 2]
        assert len(server.repeated()) <= 4  # answers that were in the air when the process died
        assert len(server.requests) <= 25 + 8
    generate_dialogues(replace(order, out=tmp_path / "offline"))
    for number in (1, 2):
        name = f"{DATASET}/dialogue_{number}.json"
        assert (out / name).read_bytes() == (tmp_path / "offline" / name).read_bytes()
    assert sorted(path.name for path in (out / CALLS).glob("*.sqlite")) == ["dialogue_1.sqlite", "dialogue_2.sqlite"]
