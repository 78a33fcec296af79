"""What `beamlib memorycode score` reads: both layouts give the same numbers, and damage gives one sentence."""

from __future__ import annotations

import copy
import gzip
import json
import tracemalloc
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from beam_commands.task_runs import TaskOptions, run_command
from beam_memorycode import outputs as reading
from beam_memorycode.dialogue_files import LoadedDialogue, load_dialogues, write_dialogue
from beam_memorycode.dialogues import Dialogue, DialogueSession, Mention, Setting, Topic
from beam_memorycode.outputs import Outputs, find_outputs, outputs_in, read_outputs, write_outputs
from beam_memorycode.rule_scoring import ORDERS, RELEASED, SCORING_VARIANTS, score_outputs, summarise_columns
from beam_memorycode.rules import DialogueRules, Rule, RuleVerdict
from beam_memorycode.scored import ScoredModel, score_data
from beam_memorycode.task import MEMORYCODE
from beamlib.errors import UserError
from beamlib.llm.model import OFFLINE_NAME

SOME = (10, 40, 70, 108, 190, 220, 310)
MODEL = "gpt-4o"


def one_dialogue() -> LoadedDialogue:
    first = DialogueSession(
        (Topic("filler-add", "the canteen"), Topic("instruction-add", "always start function names with 'x_'")),
        (Mention(6, 3),),
        ("function that adds",),
        "short",
        filler=2,
        text="Ann: Start function names with 'x_'.\n\nBen: I will.",
    )
    second = DialogueSession((), (), (), "long", text="Ann: Nothing new.\n\nBen: Fine.")
    third = DialogueSession(
        (
            Topic("instruction-add", "always use docstrings in functions"),
            Topic("instruction-update", "always start ..."),
        ),
        (Mention(23, 0), Mention(6, 5)),
        ("function that doubles", "function that adds"),
        "medium",
        text="Ann: Docstrings, and 'z_'.\n\nBen: Yes.",
    )
    start, docs = Rule("function", "^z_.*"), Rule("function docstring", True)
    dialogue = Dialogue(5, Setting("Ann", "Ben", "Firm"), (first, second, third), ("function that adds", "b", "c"))
    return LoadedDialogue(dialogue, DialogueRules(5, ((Rule("function", "^x_.*"),), (), (docs, start)), (start, docs)))


GOOD = "```python\ndef z_add(a):\n    'Adds.'\n```"
OUTPUTS = Outputs(
    5,
    (("def x_a(): pass",), (), ("def z_a(): pass", GOOD)),
    ((GOOD,), (), ("def z_a(): pass", "oh no")),
    (GOOD, "import os", None),
)


def scored(data: Path, outputs: Path) -> ScoredModel:
    (model,) = score_data(data, {outputs.name: outputs})
    return model


@pytest.fixture
def folder(tmp_path):
    item = one_dialogue()
    write_dialogue(tmp_path, item)
    write_outputs(tmp_path / "outputs" / "model", OUTPUTS)
    return tmp_path


def test_what_is_written_is_read_back(folder):
    item = one_dialogue()
    assert load_dialogues(folder) == [item] == load_dialogues(folder / "dataset")
    assert find_outputs(folder) == {"model": folder / "outputs" / "model"}
    assert read_outputs(folder / "outputs" / "model", [item.dialogue]) == {5: OUTPUTS}


def test_the_three_steps_of_averaging_by_hand(folder):
    found = scored(folder, folder / "outputs" / "model").summary
    # Instructions: 1; (docstring fails) 0 and 1, so 1/2: the dialogue has their mean.
    assert found["instruction"].mean == 75.0
    # Sessions: x_ fails on z_add: 0. Docstring and z_: 1/2; and what does not parse fails all: 1/4.
    assert found["session"].mean == 12.5 and found["session"].not_parsed == 1
    # The end: 1; an import alone has no function, so nothing applies; the third was never given.
    short = found["short_history"]
    assert (short.mean, short.n, short.answers, short.unscored, short.stderr) == (100.0, 1, 3, 1, None)
    assert found["long_history"].mean is None and found["long_history"].n == 0


def test_orders_differ_where_dialogues_differ_in_length():
    item = one_dialogue()
    other = replace(item.dialogue, id=6, sessions=item.dialogue.sessions[2:])
    short = LoadedDialogue(other, DialogueRules(6, item.rules.sessions[2:], item.rules.history))
    outputs = {5: OUTPUTS, 6: Outputs(6, session=((GOOD, GOOD),))}
    items = [item, short]
    scored = score_outputs(items, outputs)
    dialogues = [one.dialogue for one in items]
    means = {order: summarise_columns(scored, dialogues, order)["session"] for order in ORDERS}
    assert means["dialogue-mean"].mean == (12.5 + 100) / 2
    assert means["position-mean"].mean == ((0 + 100) / 2 + 25) / 2
    assert means["rule-mean"].mean == pytest.approx(100 * (0 + 1 + 0 + 2 + 2) / (1 + 2 + 2 + 2 + 2))
    assert means["dialogue-mean"].stderr == pytest.approx((100 - 12.5) / 2)
    assert all(one.n == 2 for one in means.values())


@pytest.mark.parametrize(("sessions", "column"), [(15, "short_history"), (16, "long_history")])
def test_fifteen_sessions_are_short(sessions, column):
    item = one_dialogue()
    dialogue = replace(item.dialogue, sessions=item.dialogue.sessions[1:2] * sessions)
    rules = replace(item.rules, sessions=((),) * sessions)
    scored = score_outputs([LoadedDialogue(dialogue, rules)], {5: Outputs(5, history=OUTPUTS.history)})
    found = summarise_columns(scored, [dialogue])
    assert {name: cell.n for name, cell in found.items() if cell.n} == {column: 1}


def test_variants_count_as_their_names_say():
    scored = score_outputs([one_dialogue()], {5: Outputs(5, history=(GOOD, "import os", "oh no"))})
    scores = {variant.name: [answer.score_by(variant) for answer in scored] for variant in SCORING_VARIANTS.values()}
    assert scores["released"] == [1, None, 0]
    assert scores["absent counts 0"] == [1, 0, 0] and scores["absent counts 1"] == [1, 1, 0]
    assert scores["unparsed left out"] == [1, None, None]
    half = score_outputs([one_dialogue()], {5: Outputs(5, history=("def z_a(): pass", None, None))})[0]
    assert half.score_by(RELEASED) == 0.5
    assert [half.score_by(v) for v in SCORING_VARIANTS.values() if v.all_at_once] == [0]


@pytest.fixture(scope="module")
def clone(memorycode_data, tmp_path_factory):
    """Some published dialogues and a model's outputs in the authors' layout."""
    folder = tmp_path_factory.mktemp("clone")
    items = [item for item in load_dialogues(memorycode_data) if item.dialogue.id in SOME]
    outputs = read_outputs(find_outputs(memorycode_data)[MODEL], [item.dialogue for item in items])
    for item in items:
        write_dialogue(folder, item)
        write_outputs(folder / "outputs" / MODEL, outputs[item.dialogue.id])
    return folder


def test_both_layouts_hold_the_same(clone, memorycode_data):
    published = {item.dialogue.id: item for item in load_dialogues(memorycode_data)}
    again = load_dialogues(clone)
    assert [item.dialogue.id for item in again] == sorted(SOME)
    assert all(item == published[item.dialogue.id] for item in again)
    assert any(item.dialogue.has_texts for item in again)
    dialogues = [item.dialogue for item in again]
    outputs = read_outputs(outputs_in(clone)[MODEL], dialogues)
    assert outputs == read_outputs(outputs_in(memorycode_data, MODEL)[MODEL], dialogues)


def test_a_bundles_outputs_may_lie_apart_from_its_dialogues(memorycode_data, clone, tmp_path):
    for name in (f"outputs_{MODEL}.jsonl.gz", f"instruction_outputs_{MODEL}.json.gz"):
        (tmp_path / name).write_bytes((memorycode_data / name).read_bytes())
    assert outputs_in(tmp_path) == {MODEL: tmp_path / f"outputs_{MODEL}.jsonl.gz"}
    found = scored(clone, outputs_in(tmp_path)[MODEL])
    assert found.summary == scored(clone, clone / "outputs" / MODEL).summary
    assert found.summary["instruction"].n == len(SOME)


def test_the_command_prints_what_a_program_can_read(clone, called):
    command = ["memorycode", "score", "--dialogues", clone / "dataset"]
    done = called(*command, "--outputs", clone / "outputs" / MODEL, "--json")
    assert done.returncode == 0, done.stderr
    expected = scored(clone, clone / "outputs" / MODEL).summary
    assert json.loads(done.stdout) == {name: asdict(cell) for name, cell in expected.items()}
    text = called(*command, "--outputs", clone / "outputs" / MODEL, "--variant", "absent counts 1").stdout
    assert "variant: absent counts 1" in text and f"{len(SOME)}; 0; " in text
    for words, problem in (
        (["--outputs", clone / "dataset"], "output_<id>.json"),
        (["--order", "mean"], "choose one of dialogue-mean"),
        (["--variant", "strict"], "all rules at once"),
    ):
        bad = called(*command, *words)
        assert (bad.returncode, bad.stdout) == (2, "")
        assert bad.stderr.count("\n") == 1 and problem in bad.stderr


def test_a_dialogue_without_output_is_named_and_not_counted(clone, tmp_path):
    folder = tmp_path / "part"
    folder.mkdir()
    for number in SOME[1:]:
        name = f"output_{number}.json"
        (folder / name).write_bytes((clone / "outputs" / MODEL / name).read_bytes())
    found = scored(clone, folder)
    assert found.summary["session"].n == len(SOME) - 1
    assert found.notes == ("1 of 7 dialogues have no outputs and are not counted in n.",)


@pytest.mark.usefixtures("in_this_process")
def test_answers_of_the_stand_in_are_called_that(folder, tmp_path, called):
    own = tmp_path.with_name(f"{tmp_path.name}-own")  # never below the data
    run_command(MEMORYCODE, TaskOptions(data=folder, folder=own, arms=("history",), quiet=True))
    command = ["memorycode", "score", "--data", folder]
    text = called(*command, "--outputs", own / "memorycode" / "outputs" / "offline").stdout
    assert f"Answers of offline: {OFFLINE_NAME}." in text
    assert OFFLINE_NAME not in called(*command).stdout


def test_a_changed_rule_changes_affected_answers_and_no_other(clone):
    items = load_dialogues(clone)
    dialogues = [item.dialogue for item in items]
    outputs = read_outputs(clone / "outputs" / MODEL, dialogues)
    before = score_outputs(items, outputs)
    changed = 0
    for item in items:
        for number, rule in enumerate(item.rules.history):
            if not isinstance(rule.condition, str) or number > 3:
                continue
            mutated = Rule(rule.kind, "^never_such_a_name_.*")
            history = (*item.rules.history[:number], mutated, *item.rules.history[number + 1 :])
            after = score_outputs([LoadedDialogue(item.dialogue, replace(item.rules, history=history))], outputs)
            mine = [answer for answer in before if answer.dialogue_id == item.dialogue.id]
            for was, now in zip(mine, after, strict=True):
                if was.setup != "history":
                    assert was == now
                    continue
                assert was.verdicts[:number] == now.verdicts[:number]
                assert was.verdicts[number + 1 :] == now.verdicts[number + 1 :]
                expected = RuleVerdict.FAIL if was.verdicts[number] is RuleVerdict.PASS else was.verdicts[number]
                assert now.verdicts[number] is expected
                changed += was.verdicts[number] is RuleVerdict.PASS
                assert (was.score_by(RELEASED) != now.score_by(RELEASED)) == (was.verdicts[number] is RuleVerdict.PASS)
    assert changed > 10


def rewritten(path, change):
    value = json.loads(path.read_text("utf-8"))
    change(value)
    path.write_text(json.dumps(value), "utf-8")


@pytest.mark.parametrize("empty", [None, [], "left out"])
def test_a_setup_without_any_answer_was_not_run(folder, empty):
    path = folder / "outputs" / "model" / "output_5.json"

    def change(value):
        for session in value["sessions"]:
            for name in ("instruction_model_output", "history_model_output"):
                session.pop(name) if empty == "left out" else session.update({name: empty})

    rewritten(path, change)
    found = read_outputs(path.parent, [one_dialogue().dialogue])[5]
    assert found == Outputs(5, session=OUTPUTS.session)


def test_nulls_in_a_dialogue_are_fields_left_out(folder):
    path = folder / "dataset" / "dialogue_5.json"
    before = load_dialogues(folder)

    def change(value):
        for name in ("type", "topic", "session_regex", "session_eval_query", "history_regex", "history_eval_query"):
            value["sessions"][1][name] = None
        value["sessions"][0].update(history_regex=None, history_eval_query=None)
        value["fillers"][1] = None
        value["context"]["mentor_persona"] = None

    rewritten(path, change)
    assert load_dialogues(folder) == before


@pytest.mark.parametrize("name", ["dataset/dialogue_05.json", "outputs/model/output_05.json"])
def test_two_files_of_one_number_are_refused(folder, name):
    (folder / name).write_text("{}", "utf-8")
    with pytest.raises(UserError, match="same number"):
        scored(folder, folder / "outputs" / "model")


def test_folders_beside_a_models_outputs_are_not_looked_into(folder):
    (folder / "outputs" / "model" / "old").mkdir()
    (folder / "outputs" / "model" / "old" / "output_5.json").write_text("{}", "utf-8")
    assert outputs_in(folder / "outputs" / "model") == {"model": folder / "outputs" / "model"}


@pytest.mark.parametrize("name", ["dataset/dialogue_5.json", "outputs/model/output_5.json"])
def test_a_file_of_gigabytes_is_refused_unread(folder, name):
    with (folder / name).open("ab") as file:
        file.truncate(1 << 40)  # a hole: it takes no place
    with pytest.raises(UserError, match="longer than") as caught:
        scored(folder, folder / "outputs" / "model")
    assert name in str(caught.value)


BUNDLE_ROW = {"dialogue_id": 5, "session_outputs": [["a"], [], ["b", "c"]], "history_outputs": ["d", "e", "f"]}


@pytest.mark.parametrize("name", ["outputs_x.jsonl.gz", "instruction_outputs_x.json.gz"])
def test_what_grows_to_gigabytes_is_refused_in_bounded_memory(tmp_path, name, monkeypatch):
    most = 1 << 24  # less than in use, so that the test is quick
    monkeypatch.setattr(reading, "MOST_BYTES", most)
    (tmp_path / "outputs_x.jsonl.gz").write_bytes(gzip.compress(json.dumps(BUNDLE_ROW).encode() + b"\n"))
    member = gzip.compress(b" " * (1 << 22), 1)
    (tmp_path / name).write_bytes(member * 1_000)  # 4 GiB in 20 MB: members one after the other are one file
    tracemalloc.start()
    with pytest.raises(UserError, match="longer than"):
        read_outputs(tmp_path / "outputs_x.jsonl.gz", [one_dialogue().dialogue])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * most


def test_a_bundle_of_endless_lines_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MOST_BYTES_OF_A_BUNDLE", 1_000)
    path = tmp_path / "outputs_x.jsonl.gz"
    path.write_bytes(gzip.compress(b" \n" * 501))
    with pytest.raises(UserError, match="longer than"):
        read_outputs(path, [one_dialogue().dialogue])


@pytest.mark.parametrize(
    ("rows", "problem"), [([BUNDLE_ROW, BUNDLE_ROW], "twice"), ([BUNDLE_ROW | {"dialogue_id": True}], "valid integer")]
)
def test_a_bundle_of_outputs_has_every_dialogue_once(tmp_path, rows, problem):
    path = tmp_path / "outputs_x.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    with pytest.raises(UserError, match=problem):
        read_outputs(path, [one_dialogue().dialogue])


@pytest.mark.parametrize("place", ["session_regex", "history_regex"])
def test_a_pattern_beyond_linear_time_is_refused_with_its_dialogue_though_no_answer_comes_to_it(folder, place):
    rewritten(
        folder / "dataset" / "dialogue_5.json",
        lambda value: value["sessions"][2][place].__setitem__(0, ["class", "^(?!x_).*"]),
    )
    with pytest.raises(UserError, match=r"^dialogue_5: .*\^\(\?!x_\)"):
        scored(folder, folder / "outputs" / "model")


def test_a_query_that_is_no_text_is_no_matter(folder):
    path = folder / "dataset" / "dialogue_5.json"
    rewritten(path, lambda value: value["sessions"][2]["session_eval_query"].__setitem__(0, "\ud800"))
    assert scored(folder, folder / "outputs" / "model").summary["session"].mean == 12.5


def mutated(folder, change):
    """The clone-like folder with its dialogue changed by `change`."""
    path = folder / "dataset" / "dialogue_5.json"
    rewritten(path, change)
    return path


DIALOGUE_DAMAGE = {
    "no sessions": (lambda v: v.pop("sessions"), "sessions"),
    "empty sessions": (lambda v: v["sessions"].clear(), "sessions"),
    "unknown kind": (lambda v: v["sessions"][0]["session_regex"][0].__setitem__(0, "loop"), "session_regex"),
    "a rule of one part": (lambda v: v["sessions"][0]["session_regex"][0].pop(), "session_regex"),
    "a condition that is a number": (lambda v: v["sessions"][0]["session_regex"][0].__setitem__(1, 3), "session_regex"),
    "a name with a number": (lambda v: v["sessions"][2]["history_regex"][0].__setitem__(1, ["x", 1]), "history_regex"),
    "end without rules": (lambda v: v["sessions"][2]["history_regex"].clear(), "history_regex"),
    "end without queries": (lambda v: v["sessions"][2].pop("history_eval_query"), "history_eval_query"),
    "a query too many": (lambda v: v["sessions"][0]["session_eval_query"].append("q"), "session_eval_query"),
    "a topic of no type": (lambda v: v["sessions"][0]["type"].__setitem__(1, "chat"), "type"),
    "a mention too few": (lambda v: v["instructions"][2].pop(), "instructions"),
    "mentions of another length": (lambda v: v["instructions"].pop(), "instructions"),
    "a mention of three": (lambda v: v["instructions"][0][0].append(1), "instructions"),
    "a text that is a number": (lambda v: v["sessions"][0].__setitem__("text", 3), "text"),
}


@pytest.mark.parametrize("name", DIALOGUE_DAMAGE)
def test_a_damaged_dialogue_is_named_with_its_field(folder, name):
    change, field = DIALOGUE_DAMAGE[name]
    path = mutated(folder, change)
    with pytest.raises(UserError) as caught:
        load_dialogues(folder)
    assert str(path) in str(caught.value) and field in str(caught.value) and "\n" not in str(caught.value)


OUTPUT_DAMAGE = {
    "no sessions": lambda v: v.pop("sessions"),
    "sessions that are a text": lambda v: v.__setitem__("sessions", "none"),
    "a session too few": lambda v: v["sessions"].pop(1),
    "an answer too few": lambda v: v["sessions"][2]["session_model_output"].pop(),
    "an answer too many": lambda v: v["sessions"][2]["session_model_output"].append("a = 1"),
    "an answer in a session without queries": lambda v: v["sessions"][1].update(session_model_output=["a = 1"]),
    "an answer that is a number": lambda v: v["sessions"][2]["history_model_output"].__setitem__(0, 1),
    "answers that are a text": lambda v: v["sessions"][2].__setitem__("history_model_output", "abc"),
}


@pytest.mark.parametrize("name", OUTPUT_DAMAGE)
def test_damaged_outputs_are_named(folder, name):
    path = folder / "outputs" / "model" / "output_5.json"
    value = json.loads(path.read_text("utf-8"))
    OUTPUT_DAMAGE[name](value)
    path.write_text(json.dumps(value), "utf-8")
    with pytest.raises(UserError) as caught:
        scored(folder, path.parent)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", ["truncated", "not gzip", "broken line", "no id", "twice"])
def test_a_damaged_bundle_is_named(tmp_path, damage):
    item = one_dialogue()
    write_dialogue(tmp_path, item)
    row = {"dialogue_id": 5, **json.loads((tmp_path / "dataset" / "dialogue_5.json").read_text("utf-8"))}
    other = copy.deepcopy(row)
    if damage == "no id":
        del other["dialogue_id"]
    lines = json.dumps(row) + "\n" + (json.dumps(other) if damage != "broken line" else '{"dialogue_id": 6') + "\n"
    data = gzip.compress(lines.encode())
    if damage in ("truncated", "not gzip"):
        data = data[:-20] if damage == "truncated" else b"not gzip"
    (tmp_path / "templates.jsonl.gz").write_bytes(data)
    with pytest.raises(UserError, match=r"templates\.jsonl\.gz") as caught:
        load_dialogues(tmp_path)
    assert "\n" not in str(caught.value)


def test_unknown_names_are_refused_with_what_there_is(folder):
    with pytest.raises(UserError, match="choose one of model"):
        outputs_in(folder, "other")
    for empty in (folder / "nowhere", folder / "outputs"):
        with pytest.raises(UserError, match="dialogue_<id>"):
            load_dialogues(empty)
