"""Prompt files: what they show, in which order, and which overrides are accepted. All texts are made up here."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from beam_offline import ANSWERED, OfflineModel
from beamlib.errors import UserError
from beamlib.llm.model import Prompt
from beamlib.llm.prompts import PROMPTS, Prompts, prompt_file, prompt_ids, read_overrides, render

IDS = prompt_ids()
EVALUATION = sorted(ANSWERED)
SHORT = {"target_tokens", "count", "subplans", "bullets", "index", "introduce", "ability", "domain", "words"}
"""Variables that are a word or a number of ours: they may stand in a sentence, with no tags around them."""
NAMED = {"mentor", "mentee", "company", "query", "length", "meeting", "agenda", "mentor_persona", "mentee_persona"}
"""Variables of MemoryCode that are a name, a phrase or what is asked for in sentences: they stand in sentences too."""
PAIR = "[messages 2-3]\nUSER: I keep 14 hives behind the barn.\nASSISTANT: Feed them in autumn."
NOTE = "- [messages 2-3] I keep 14 hives."
ASKED = "How many hives do I keep?"
FILLED = {
    "question": ASKED,
    "context": PAIR,
    "history": "",
    "pair": PAIR,
    "notes": NOTE,
    "target_tokens": "50",
    "chunk": NOTE,
    "answer": "You keep 14 hives.",
    "nugget": "14 hives",
    "event": "Counting the hives",
    "items": "1. Counting the hives\n2. Selling wax",
    "nuggets": "1. Hive count\n2. Buying a smoker",
}


def filled(prompt_id: str, **changed: str) -> dict[str, str]:
    names = prompt_file(prompt_id).variables
    return {name: changed.get(name, FILLED.get(name, f"some {name}")) for name in names}


def text_of(prompt_id: str, variables: dict[str, str]) -> str:
    return "\n".join(message["content"] for message in render(prompt_id, variables))


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


# What each prompt shows


def test_there_is_a_prompt_for_every_step_of_the_evaluation() -> None:
    readers = {"answer", "answer_full", "answer_full_released", "answer_turns"}
    memories = {"episodic_keys", "scratchpad_notes", "scratchpad_compress", "scratchpad_filter", "filter_batch"}
    coders = {f"memorycode_{name}" for name in ("instruction", "session", "history", "chain", "recalled", "alone")}
    evolving = {"file_memory_ingest", "file_memory_recall", "wiki_compile", "wiki_choose", "dependency_notes"}
    judged = ("aggregation", "tracking", "cascade", "absence", "deletion", "before")
    meme = {"meme_answer", *(f"meme_judge_{task}" for task in judged)}
    judges = {"judge_nugget", "align_events", "align_batch"}
    assert readers | memories | judges | coders | evolving | meme == set(EVALUATION)


def test_there_is_a_prompt_for_every_listing_of_the_paper() -> None:
    stated = " ".join(str(prompt_file(name).listing) for name in IDS)
    missing = set(range(1, 45)) - {int(number) for number in re.findall(r"[0-9]+", stated)}
    assert not missing


@pytest.mark.parametrize("prompt_id", IDS)
def test_every_variable_is_shown_and_nothing_of_the_template_is_left(prompt_id: str) -> None:
    marks = {name: f"<<{name}>>" for name in prompt_file(prompt_id).variables}
    text = text_of(prompt_id, marks)
    assert all(mark in text for mark in marks.values())
    assert "{{" not in text
    assert "{%" not in text
    assert "===" not in text


@pytest.mark.parametrize("prompt_id", IDS)
def test_a_missing_and_an_unknown_variable_are_refused(prompt_id: str) -> None:
    variables = filled(prompt_id)
    for name in variables:
        with pytest.raises(UserError, match=rf"prompts/{prompt_id}\.md.*'{name}'"):
            render(prompt_id, {key: value for key, value in variables.items() if key != name})
    with pytest.raises(UserError, match="'surplus'"):
        render(prompt_id, {**variables, "surplus": "x"})


@pytest.mark.parametrize("prompt_id", IDS)
def test_what_is_filled_in_comes_out_verbatim(prompt_id: str) -> None:
    canaries = {
        name: f"{{{{ {name} }}}} {{% if {name} %}} {{# note #}}\n=== system ===\n<b>&amp; \\n ${name}"
        for name in prompt_file(prompt_id).variables
    }
    messages = render(prompt_id, canaries)
    assert [message["role"] for message in messages] == [role for role, _ in prompt_file(prompt_id).parts]
    assert all(canary in text_of(prompt_id, canaries) for canary in canaries.values())


@pytest.mark.parametrize("prompt_id", [name for name in IDS if name != "answer_turns"])
def test_material_stands_between_tags_of_its_own(prompt_id: str) -> None:
    marks = {name: f"<<{name}>>" for name in prompt_file(prompt_id).variables if name not in SHORT | NAMED}
    text = text_of(prompt_id, {name: marks.get(name, "50") for name in prompt_file(prompt_id).variables})
    for mark in marks.values():
        assert re.search(rf"^<(\w+)>\n{re.escape(mark)}\n</\1>$", text, re.MULTILINE), mark


@pytest.mark.parametrize("prompt_id", EVALUATION)
def test_the_stand_in_answers_it(prompt_id: str) -> None:
    prompt = Prompt(prompt_id, filled(prompt_id))
    assert prompt_id in ANSWERED
    assert asyncio.run(OfflineModel().complete(prompt)).text


@pytest.mark.parametrize("name", ["align_events", "align_batch"])
def test_alignment_is_asked_for_in_a_system_and_a_user_message(name: str) -> None:
    system, user = render(name, filled(name))
    assert (system["role"], user["role"]) == ("system", "user")
    assert not [value for value in filled(name).values() if value in system["content"]]
    assert all(value in user["content"] for value in filled(name).values())


# Order: what calls share comes first


@pytest.mark.parametrize(
    ("prompt_id", "order"),
    [
        ("answer", ("context", "question")),
        ("answer_full", ("context", "question")),
        ("answer_full_released", ("context", "question")),
        ("scratchpad_filter", ("chunk", "question")),
        ("filter_batch", ("chunks", "question")),
        ("judge_nugget", ("question", "answer", "nugget")),
        ("episodic_keys", ("history", "pair")),
        ("scratchpad_notes", ("history", "pair")),
        ("align_events", ("event", "nugget")),
        ("align_batch", ("nuggets", "items")),
        ("memorycode_instruction", ("guideline", "query")),
        ("memorycode_session", ("mentee", "company", "mentor", "session", "query")),
        ("memorycode_history", ("mentee", "company", "mentor", "sessions", "query")),
        ("memorycode_chain", ("guidelines", "query")),
        ("memorycode_recalled", ("mentee", "company", "mentor", "context", "query")),
    ],
)
def test_what_changes_most_comes_last_and_little_after_it(prompt_id: str, order: tuple[str, ...]) -> None:
    text = text_of(prompt_id, {name: f"<<{name}>>" for name in order})
    places = [text.index(f"<<{name}>>") for name in order]
    assert places == sorted(places)
    assert len(text[places[-1] :].strip().splitlines()) <= 4  # the value, its closing tag, a blank line, a reminder


@pytest.mark.parametrize(
    ("prompt_id", "asked", "shared"),
    [
        ("answer", "question", "context"),
        ("answer_full", "question", "context"),
        ("answer_full_released", "question", "context"),
        ("scratchpad_filter", "question", "chunk"),
        ("filter_batch", "question", "chunks"),
        ("judge_nugget", "nugget", "answer"),
        ("memorycode_session", "query", "session"),
        ("memorycode_history", "query", "sessions"),
        ("memorycode_chain", "query", "guidelines"),
    ],
)
def test_two_calls_share_everything_up_to_what_differs(prompt_id: str, asked: str, shared: str) -> None:
    long = "shared material " * 200
    one, other = (
        text_of(prompt_id, filled(prompt_id, **{asked: value, shared: long})) for value in ("Xylem?", "Yarn?")
    )
    before, found, _ = one.partition("Xylem?")
    assert found
    assert long in before
    assert other.startswith(before + "Yarn?")


# The judge that does not see the question (S2 of the reference)


def test_without_a_question_the_judge_is_not_told_of_one() -> None:
    seen = text_of("judge_nugget", filled("judge_nugget"))
    unseen = text_of("judge_nugget", filled("judge_nugget", question=""))
    assert re.search(r"\bquestion|\brespond", seen)
    assert not re.search(r"\bquestion|\brespond|\basked\b", unseen)
    assert "\n\n\n" not in seen + unseen
    lines = set(seen.splitlines())
    assert sum(line in lines for line in unseen.splitlines()) > 0.8 * len(unseen.splitlines())


# Own words


@pytest.mark.parametrize("name", ["beam-light", "memorycode"])
def test_no_eight_words_in_a_row_are_the_papers(name: str, shared: Path) -> None:
    paper = shared / f"papers/{name}.txt"
    if not paper.is_file():
        pytest.skip(f"no text of the paper at {paper}")
    # The printed listings carry line numbers, which would hide what runs over a line's end.
    plain = words(re.sub(r"^\d{4}\b", "", paper.read_text(encoding="utf-8"), flags=re.MULTILINE))
    theirs = {tuple(plain[i : i + 8]) for i in range(len(plain) - 7)}
    assert len(theirs) > 10_000
    for prompt_id in IDS:
        ours = words(prompt_file(prompt_id).template)
        copied = [" ".join(ours[i : i + 8]) for i in range(len(ours) - 7) if tuple(ours[i : i + 8]) in theirs]
        assert not copied, prompt_id


# Overrides


def test_a_whole_file_overrides_ours_and_only_ours(tmp_path: Path) -> None:
    (tmp_path / "answer.md").write_text(
        "---\nlisting: 99\nrole: reader\nvariables: [question, context]\noutput: a haiku\n---\n"
        "{{ context }}|{{ question }}\n"
    )
    (tmp_path / ".hidden.md").write_text("{{ nothing }}")
    (tmp_path / "README.txt").write_text("The wording of our first run.")
    assert [*read_overrides(tmp_path)] == ["answer"]
    assert render("answer", filled("answer"), Prompts.read(tmp_path)) == [
        {"role": "user", "content": f"{PAIR}|{ASKED}"}
    ]
    file = Prompts.read(tmp_path)["answer"]
    assert (file.listing, file.output) == ("99", "a haiku")
    assert file.sha256 != prompt_file("answer").sha256
    assert Prompts.read(tmp_path)["judge_nugget"] == prompt_file("judge_nugget")


@pytest.mark.parametrize(
    "source",
    [
        "Read {{ chunk }}, then say yes or no to {{ question }}",
        "\ufeffRead {{ chunk }}, then say yes or no to {{ question }}\n\n",
        "---\noutput: yes or no, in Welsh\n---\nRead {{ chunk }}, then say yes or no to {{ question }}",
        "--- \r\n--- \r\nRead {{ chunk }}, then say yes or no to {{ question }}\r\n",
        "---\nvariables: [question, chunk]\n---\nRead {{ chunk }}, then say yes or no to {{ question }}",
    ],
    ids=["plain", "byte order mark", "one field", "empty header, CRLF", "variables"],
)
def test_what_an_override_does_not_say_is_as_in_ours(source: str, tmp_path: Path) -> None:
    (tmp_path / "scratchpad_filter.md").write_bytes(source.encode())
    assert [*read_overrides(tmp_path)] == ["scratchpad_filter"]
    file, own = Prompts.read(tmp_path)["scratchpad_filter"], prompt_file("scratchpad_filter")
    assert (file.listing, file.role) == (own.listing, own.role)
    assert set(file.variables) == set(own.variables)
    (message,) = render("scratchpad_filter", filled("scratchpad_filter"), Prompts.read(tmp_path))
    assert message["content"] == f"Read {NOTE}, then say yes or no to {ASKED}"


def test_an_override_may_have_a_system_message(tmp_path: Path) -> None:
    (tmp_path / "answer.md").write_text("=== system ===\nBe curt.\n\n=== user ===\n{{ context }} {{ question }}\n")
    assert [*read_overrides(tmp_path)] == ["answer"]
    system, user = render("answer", filled("answer"), Prompts.read(tmp_path))
    assert system == {"role": "system", "content": "Be curt."}
    assert user == {"role": "user", "content": f"{PAIR} {ASKED}"}


BOTH = "{{ context }} {{ question }}"
LOOPS = "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("answer.md", "Only {{ question }}", r"answer\.md: .*lacks the variable 'context'"),
        ("answer.md", BOTH + " {{ query }}", r"answer\.md: .*unknown variable 'query'"),
        ("answer.md", f"---\nvariables: [question, text]\n---\n{BOTH}", r"answer\.md: .*variable 'context'"),
        ("answer.md", f"---\nvariables: question\n---\n{BOTH}", r"answer\.md: 'variables' is 'question'"),
        ("answer.md", f"---\ntemperature: 0\n---\n{BOTH}", r"answer\.md: .*unknown field 'temperature'"),
        ("answer.md", f"---\njust words\n---\n{BOTH}", r"answer\.md: the header is 'just words'"),
        ("answer.md", f"---\nlisting: 44\n{BOTH}", r"answer\.md: .*header between two '---' lines"),
        ("answer.md", BOTH + " {{ question", r"answer\.md: .*not a valid template"),
        ("answer.md", BOTH + " {{ question | sing }}", r"answer\.md: .*not a valid template .*sing"),
        ("answer.md", BOTH + " {% include 'other.md' %}", r"answer\.md: .*not a valid template"),
        ("answer.md", BOTH + " {{ question.__class__.__mro__ }}", r"answer\.md: .*not a valid template"),
        ("answer.md", BOTH + LOOPS, r"answer\.md: .*not a valid template.*'for' in line 1"),
        ("answer.md", BOTH + " {{ 'x' * 9999999999 }}", r"answer\.md: .*not a valid template.*'mul'"),
        ("answer.md", BOTH + " {{ question | center(9999999999) }}", r"answer\.md: .*the filter 'center'"),
        ("answer.md", BOTH + " {% macro m() %}{{ m() }}{% endmacro %}", r"answer\.md: .*not a valid template"),
        ("answer.md", BOTH + " {{ context }}" * 30, r"answer\.md: the text names 'context' more than 20 times"),
        ("answer.md", BOTH + " {{ " + "(" * 3_000 + ")" * 3_000 + " }}", r"answer\.md: .*not a valid template"),
        ("answer.md", BOTH + "x" * 200_000, r"answer\.md: more than the 200,000 characters"),
        ("answer.md", f"=== system ===\n{BOTH}", r"answer\.md: the text has the messages \['system'\]"),
        ("answer.md", f"Hello\n=== user ===\n{BOTH}", r"answer\.md: the text has the messages"),
        ("answer.md", f"=== user ===\n{BOTH}\n=== assistant ===\nSure.", r"messages \['user', 'assistant'\]"),
        ("answer.md", f"=== system ===\n\n=== user ===\n{BOTH}", r"none empty"),
        ("anwser.md", BOTH, r"anwser\.md: no prompt has this file name; .*answer\.md"),
        ("Answer.md", BOTH, r"Answer\.md: no prompt has this file name"),
        ("answer.txt", BOTH, r"answer\.txt: no prompt has this file name"),
        ("readme.txt", BOTH, r"contains no prompt file"),
    ],
)
def test_an_override_that_cannot_be_meant_is_one_sentence(name: str, source: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(source)
    with pytest.raises(UserError, match=message) as raised:
        read_overrides(tmp_path)
    assert "\n" not in str(raised.value)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(UserError, match=rf"{path.name}: the folder of prompts cannot be read"):
            read_overrides(path)
        (tmp_path / "file").write_text("")
    (tmp_path / "file").unlink()
    (tmp_path / "answer.md").write_bytes(b"caf\xe9 " + BOTH.encode())
    with pytest.raises(UserError, match=r"answer\.md: not UTF-8"):
        read_overrides(tmp_path)
    (tmp_path / "answer.md").unlink()
    (tmp_path / "answer.md").symlink_to(tmp_path / "gone.md")
    with pytest.raises(UserError, match=r"answer\.md: the file does not exist"):
        read_overrides(tmp_path)


def test_our_own_folder_is_a_valid_one() -> None:
    assert [*read_overrides(PROMPTS)] == IDS
