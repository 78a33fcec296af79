"""Our own JSON, YAML and prompt files: a value that could be meant in two ways is refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from beam_run import cli
from beam_run.cluster.addresses import check_address
from beamlib.errors import UserError
from beamlib.files import MOST_YAML, MOST_YAML_NODES, parse_json, parse_yaml, read_json, read_jsonl
from beamlib.llm import prompts
from beamlib.llm.endpoints import load_models
from beamlib.params import load_parameters


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "occurs twice"),
        ("[NaN]", "`NaN`"),
        ("[-Infinity]", "`-Infinity`"),
        ("[1e999]", "beyond any number"),
        ("[" + "9" * 5000 + "]", "a number too long"),
        ("[" * 100_000, "nested too deeply"),
        ("[1,", "not valid JSON"),
    ],
)
def test_json_is_read_strictly(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as one:
        read_json(path)
    path.write_text(f"1\n{text}\n")
    with pytest.raises(UserError, match=f"line 2.*{message}"):
        read_jsonl(path)
    assert "\n" not in str(one.value)


def test_the_key_that_occurs_twice_is_found_in_linear_time() -> None:
    text = "{" + ", ".join(f'"k{number}": 1' for number in [*range(50_000), 49_999]) + "}"
    began = time.process_time()
    with pytest.raises(ValueError, match="`'k49999'` occurs twice"):
        parse_json(text)
    assert time.process_time() - began < 5


def test_a_value_may_be_written_once_and_used_again() -> None:
    assert parse_yaml("a: &a {b: [1, 2]}\nc: *a\nd: *a", Path("x")) == {name: {"b": [1, 2]} for name in "acd"}


@pytest.mark.parametrize("own", ["{<<: *a, x: 2}", "{x: 2, <<: *a}", "{<<: [*a, {x: 3}], x: 2}"])
def test_what_is_merged_may_be_overridden(own: str) -> None:
    assert parse_yaml(f"a: &a {{x: 1, y: 1}}\nb: {own}", Path("x"))["b"] == {"x": 2, "y": 1}


@pytest.mark.parametrize(
    "value", ["!!timestamp x", "!!bool x", "!!int x", "!!float x", "!!binary 'x", "!!set 1", "!!x 1"]
)
def test_a_value_that_is_not_what_its_tag_says_is_one_sentence(value: str) -> None:
    with pytest.raises(UserError, match=r"^x\.yaml: .*correct it\.$"):
        parse_yaml(f"a: {value}", Path("x.yaml"))


@pytest.mark.parametrize("text", ["<<: {a: 1}\n<<: {a: 2}", "{a: 1, <<: {b: 1}, a: 1}", "1: a\n0x1: b"])
def test_a_key_that_occurs_twice_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="a key occurs twice"):
        parse_yaml(text, Path("x.yaml"))


@pytest.mark.parametrize("key", ["~", "yes", "no", ".nan", "2024-03-15", "? [a]\n", "? {a: b}\n"])
def test_a_key_that_is_no_text_is_refused(key: str, tmp_path: Path, repo_root: Path) -> None:
    """A parameter named `true` ended the command with a traceback."""
    path = tmp_path / "p.yaml"
    path.write_text((repo_root / "params/100k.yaml").read_text() + f"{key}: 1\n")
    with pytest.raises(UserError, match=r"p\.yaml: not valid YAML \(line \d+, .*a key that is no text; quote it"):
        load_parameters(path)


def test_a_key_may_be_a_number_as_in_a_bias_of_tokens(tmp_path: Path, repo_root: Path) -> None:
    assert parse_yaml("logit_bias: {50256: -100}", Path("x.yaml")) == {"logit_bias": {50256: -100}}
    path = tmp_path / "p.yaml"
    path.write_text((repo_root / "params/100k.yaml").read_text() + "7: 1\n")
    with pytest.raises(UserError, match=r"p\.yaml: unknown parameter '7'"):
        load_parameters(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("size: 1M\n", "a key occurs twice"),
        ("extra: " + "9" * 5000, "a number too long"),
        ("extra: 0x" + "f" * 5000, "a number too long"),
        ("extra: 1" + ":1" * 100_000, "a number too long"),
        ('extra: "\\ud800"', "half a character"),
        ("extra: &a [*a]", "a value that contains itself"),
        ("extra: &a {b: &b [{c: *a}]}", "a value that contains itself"),
        ("#" * (1 << 18), "has more than 262,144 characters"),
        ("extra: [" + "1," * 20_001 + "]", "more than 20,000 values"),
        ("extra: *x", "undefined alias"),
        ("extra: 2024-13-45", "cannot be read"),
        ("extra: " + "[" * 5000, "nested more than 30 deep"),
        ("extra:\n" + "".join(" " * n + "a:\n" for n in range(1, 500)), "nested more than 30 deep"),
    ],
)
def test_parameters_are_read_strictly(line: str, message: str, tmp_path: Path, repo_root: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text((repo_root / "params/100k.yaml").read_text() + line)
    with pytest.raises(UserError, match=message):
        load_parameters(path)


def expansion(merged: bool = False) -> str:
    """Seven lines that stand for ten million values."""
    lines = ["a0: &a0 {k: 1}" if merged else 'a0: &a0 ["x","x","x","x","x","x","x","x","x","x"]']
    for level in range(1, 7):
        aliases = ",".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} " + (f"{{<<: [{aliases}]}}" if merged else f"[{aliases}]"))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("merged", [False, True])
def test_aliases_count_as_what_they_stand_for(merged: bool, tmp_path: Path, repo_root: Path) -> None:
    """As parameters, as a models file, as a prompt's header, as a cluster's file, and as a setting."""
    bomb = tmp_path / "bomb.yaml"
    bomb.write_text(expansion(merged))
    prompt = (repo_root / "prompts/answer.md").read_text().replace("---\n", f"---\n{expansion(merged)}", 1)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "answer.md").write_text(prompt)
    began = time.process_time()
    for read in (
        lambda: load_parameters(bomb),
        lambda: load_models(bomb),
        lambda: check_address(str(bomb)),
        lambda: prompts.Prompts.read(tmp_path / "own"),
        lambda: parse_yaml(expansion(merged), Path("--set")),
    ):
        with pytest.raises(UserError, match="more than 20,000 values, aliases counted in full"):
            read()
    assert time.process_time() - began < 5


def test_a_file_too_long_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "endless.yaml"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UserError, match="has more than 262,144 characters"):
        load_models(path)


def test_the_bounds_leave_room_for_every_file_of_ours(repo_root: Path) -> None:
    """Ten times as much as the longest may come."""
    files = [path for part in ("params", "packages", "beamlib") for path in (repo_root / part).rglob("*.yaml")]
    assert len(files) > 10
    assert all(len(path.read_text()) * 10 < MOST_YAML for path in files)
    assert all(str(parse_yaml(path.read_text(), path)).count(",") * 5 < MOST_YAML_NODES for path in files)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("variables:", "variables: 5 #", "'variables' is 5"),
        ("variables:", "variables: null #", "'variables' is None"),
        ("{{ question }}", "{{ query }}", "the text uses"),
        ("{{ question }}", "{{ question", "not a valid template"),
        ("role:", "listing:", "a key occurs twice"),
    ],
)
def test_a_broken_prompt_file_is_one_sentence(
    old: str, new: str, message: str, tmp_path: Path, repo_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (repo_root / "prompts/answer.md").read_text()
    assert old in text
    (tmp_path / "answer.md").write_text(text.replace(old, new))
    monkeypatch.setattr(prompts, "PROMPTS", tmp_path)
    with pytest.raises(UserError, match=message):
        prompts.prompt_file("answer")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (OSError(28, "No space left on device", "x.pdf"), 2, "x.pdf: No space left on device"),
        (FileNotFoundError("output folder x is gone"), 2, "the file system: output folder x is gone"),
        (KeyboardInterrupt(), 130, "the same command goes on"),
    ],
)
def test_how_a_command_ends(
    error: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("beam_claims.engine.audit", fail)
    monkeypatch.setattr("sys.argv", ["beamlib", "claims"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
    assert message in capsys.readouterr().err


def test_a_file_name_that_is_no_text_can_be_printed(tmp_path: Path, repo_root: Path) -> None:
    shutil.copytree(repo_root / "beamlib/data/example/100K/1", tmp_path / "100K/1")
    (tmp_path / "100K/1" / b"\xff.pickle".decode(errors="surrogateescape")).write_bytes(b"x")
    command = [sys.executable, "-m", "beam_run", "data", "check", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "udcff.pickle" in done.stdout
