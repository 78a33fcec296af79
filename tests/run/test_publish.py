"""A recorded run as an archive, and the archive replayed by someone who has the data and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from pydantic import BaseModel, create_model

import beamlib
from beam_page.building import write_page
from beam_page.data_files import read_data
from beam_page.run_folder import read_run
from beam_run import publish as publishing
from beam_run.archive import export_calls, import_calls
from beam_run.publish import differing_claim, publish, verify
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.beam_records import Manifest, read_manifest
from beamlib.evaluate.kept_settings import keep_settings
from beamlib.evaluate.run import evaluate
from beamlib.llm.call_store import StoredCall
from beamlib.llm.endpoints import Endpoint, load_models, parse_models
from beamlib.llm.exchange import Basis, basis_of, unverified
from beamlib.llm.spending import guard_run
from beamlib.params import RunParameters, load_parameters
from beamlib.places import ROOT
from beamlib.report.footer import CLAIMED_LINE, footer
from beamlib.run import Run
from remade_archives import contents, remade, signed
from scripted_server import ScriptedServer
from steady_replies import one_endpoint, steady_reply

pytestmark = pytest.mark.usefixtures("file_in_this_process")

KEY = "swordfish-and-chips"
EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"
ARMS = (Arm(memory="none"), Arm(memory="light", retriever="bm25", k=2))


@pytest.fixture(scope="module")
def run(file_in_this_process: None, repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run folder whose server is gone; one of its prompts is overridden."""
    root = tmp_path_factory.mktemp("published")
    (root / "prompts").mkdir()
    (root / "prompts" / "answer.md").write_text("Of this: {{ context }}\n<question>\n{{ question }}\n</question>\nSay:")
    with ScriptedServer(steady_reply) as server:
        one_endpoint(server, root / "models.yaml")
        parameters: RunParameters = load_parameters(
            repo_root / "params" / "100k.yaml",
            data=str(EXAMPLE),
            run=str(root / "run"),
            models=str(root / "models.yaml"),
            prompts=str(root / "prompts"),
            confirm_cost=True,
            workers=1,
        )
        evaluate(parameters, ARMS, quiet=True)
        assert any("Of this: " in str(request.body) for request in server.requests)
    keep_settings(Run.of(parameters))
    return root / "run"


def test_an_archive_is_verified_and_replayed_without_a_server(run: Path, tmp_path: Path) -> None:
    archive = tmp_path / "run.tar.zst"
    assert "0 without a usable reply" in publish(run, archive)
    assert "every hash agrees" in verify(archive, None)
    assert "100k-one: 2 methods replayed, 40 answers and judgements, all as published" in verify(archive, EXAMPLE)
    assert str(run).encode() not in archive.read_bytes()


def test_a_call_that_is_not_in_the_archive_is_said_without_a_command_that_pays(run: Path, tmp_path: Path) -> None:
    publish(run, tmp_path / "run.tar.zst")
    files = contents(tmp_path / "run.tar.zst")
    models = yaml.safe_load(files["100k-one/models.yaml"])
    models["readers"]["one"]["seed"] = 5
    files["100k-one/models.yaml"] = yaml.safe_dump(models).encode()
    with pytest.raises(UserError, match="20 calls are not stored, so the answers do not follow") as caught:
        verify(remade(files, tmp_path / "crafted.tar.zst"), EXAMPLE)
    assert "--yes" not in str(caught.value) and "beamlib-replay-" not in str(caught.value)


def test_an_archive_that_names_variables_as_keys_neither_reads_nor_removes_them(
    run: Path, repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a key takes it out of the environment; HF_HUB_OFFLINE was gone in the replay, which then downloaded."""
    names = ["NO_DOWNLOADS", "AWS_SECRET_ACCESS_KEY", "BEAM_TEST_KEY"]
    for name in names:
        monkeypatch.setenv(name, KEY)
    publish(run, tmp_path / "run.tar.zst")
    files = contents(tmp_path / "run.tar.zst")
    models = yaml.safe_load(files["100k-one/models.yaml"])
    for name, role in zip(names, (models["readers"]["one"], models["judge"], models["memory"]), strict=True):
        role["key_variable"] = name
    files["100k-one/models.yaml"] = yaml.safe_dump(models).encode()
    archive = remade(files, tmp_path / "named.tar.zst")
    asked: list[str] = []
    for reader in ("beamlib.llm.endpoints.read_key", "beamlib.llm.client.read_key"):
        monkeypatch.setattr(reader, asked.append)
    monkeypatch.setattr("beamlib.llm.keys.key_values", lambda variables: asked.extend(variables) or {})
    assert "all as published" in verify(archive, EXAMPLE)
    import_calls(archive, tmp_path / "theirs")
    write_page(read_run(tmp_path / "theirs", EXAMPLE), workers=1)
    publish(tmp_path / "theirs", tmp_path / "again.tar.zst")
    replayed = load_parameters(
        repo_root / "params/100k.yaml", data=str(EXAMPLE), run=str(tmp_path / "theirs"), workers=1, calls="replay",
        models=str(tmp_path / "theirs/100k-one/models.yaml"), prompts=str(tmp_path / "theirs/100k-one/prompts"),
    )  # fmt: skip
    with guard_run(tmp_path / "theirs", replayed.models, calls=replayed.calls):
        evaluate(replayed, ARMS, quiet=True)
    assert not asked
    assert all(os.environ[name] == KEY for name in names)


@pytest.mark.parametrize("name", ["models.yaml", "prompts/answer.md", "prompts/judge_nugget.md"])
def test_an_archive_of_aliases_is_refused_at_once(name: str, run: Path, tmp_path: Path) -> None:
    publish(run, tmp_path / "run.tar.zst")
    files = contents(tmp_path / "run.tar.zst")
    bomb = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    bomb += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    text = "\n".join(bomb)
    files[f"100k-one/{name}"] = (f"---\n{text}\n---\nSay it" if "prompts" in name else text).encode()
    began = time.process_time()
    with pytest.raises(UserError, match="more than 20,000 values, aliases counted in full"):
        verify(remade(files, tmp_path / "bomb.tar.zst"), EXAMPLE)
    assert time.process_time() - began < 10


def test_equal_runs_give_equal_archives(run: Path, tmp_path: Path) -> None:
    for name in ("first.tar.zst", "second.tar.zst"):
        publish(run, tmp_path / name)
    assert (tmp_path / "first.tar.zst").read_bytes() == (tmp_path / "second.tar.zst").read_bytes()


def test_an_answer_that_the_calls_do_not_give_is_found(run: Path, tmp_path: Path) -> None:
    manifest = run / "100k-one" / "none" / "manifest.json"
    value = json.loads(manifest.read_text())
    del value["sha256"]
    value["answers_sha256"]["100K-1"] = "0" * 64
    from beamlib.files import sha256, to_json

    forged = tmp_path / "manifest.json"
    forged.write_text(json.dumps({**value, "sha256": sha256(to_json(value))}))
    part = run / "100k-one"
    files = [part / "parameters.json", part / "models.yaml", *sorted(part.glob("prompts/*.md"))]
    extra = {path.relative_to(run).as_posix(): path for path in files} | {"100k-one/none/manifest.json": forged}
    export_calls(run / "calls", tmp_path / "forged.tar.zst", extra)
    with pytest.raises(UserError, match=r"100k-one/none: the answers of 100K-1 came out otherwise"):
        verify(tmp_path / "forged.tar.zst", EXAMPLE)


def test_what_an_earlier_run_left_in_the_folder_is_replayed_with_its_own_parameters(
    repo_root: Path, tmp_path: Path
) -> None:
    run, prompts = tmp_path / "run", tmp_path / "prompts"
    prompts.mkdir()
    (prompts / "answer.md").write_text("By {{ context }} <question>\n{{ question }}\n</question>")
    none, two, three = Arm(memory="none"), *(Arm(memory="rag", retriever="bm25", k=k) for k in (2, 3))
    with ScriptedServer(steady_reply) as server:
        fixed = {"data": str(EXAMPLE), "run": str(run), "confirm_cost": True, "workers": 1}
        fixed["models"] = str(one_endpoint(server, tmp_path / "models.yaml"))
        for arms, changes in (
            ((none,), {"prompts": str(prompts)}),
            ((none, two), {}),
            ((none, three), {"judge_repeats": 2, "question_in_prompt": False}),
        ):
            parameters = load_parameters(repo_root / "params" / "100k.yaml", **fixed, **changes)
            evaluate(parameters, arms, quiet=True)
            keep_settings(Run.of(parameters))
    publish(run, tmp_path / "run.tar.zst")
    assert "100k-one: 3 methods replayed, 60 answers" in verify(tmp_path / "run.tar.zst", EXAMPLE)


def test_a_folder_without_calls_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no stored calls"):
        publish(tmp_path, tmp_path / "x.tar.zst")


def test_nothing_is_packed_while_a_file_holds_a_key(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    models = copy / "100k-one" / "models.yaml"
    models.write_text(
        models.read_text().replace("model: scripted", "model: scripted\n    key_variable: BEAM_TEST_KEY", 1)
    )
    monkeypatch.setenv("BEAM_TEST_KEY", KEY)
    line = publish(copy, tmp_path / "clean.tar.zst")
    assert line.endswith("; no file holds the key in BEAM_TEST_KEY")
    (copy / "figures").mkdir()
    (copy / "figures" / "plot.pdf").write_bytes(b"%PDF" + KEY.encode())
    with pytest.raises(UserError, match=r"figures/plot\.pdf \(BEAM_TEST_KEY\)") as caught:
        publish(copy, tmp_path / "run.tar.zst")
    assert KEY not in str(caught.value) and not (tmp_path / "run.tar.zst").exists()
    monkeypatch.setattr("beamlib.llm.keys._kept", {})  # as in another process, where it is not set
    monkeypatch.delenv("BEAM_TEST_KEY")
    assert "not searched for the key in BEAM_TEST_KEY, which is not set here" in publish(copy, tmp_path / "x.tar.zst")


def test_a_comment_of_the_models_file_is_not_published(repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer() as server:
        models = one_endpoint(server, tmp_path / "models.yaml")
    models.write_text(models.read_text() + "# ask Ana for the key: tulips-in-amsterdam\n")
    given = load_parameters(repo_root / "params/100k.yaml", run=str(tmp_path / "run"), models=str(models))
    keep_settings(Run.of(given))
    assert "tulips" not in (tmp_path / "run" / "100k-one" / "models.yaml").read_text()


def test_costs_on_the_page_say_what_they_rest_on(run: Path, tmp_path: Path) -> None:
    publish(run, tmp_path / "run.tar.zst")
    import_calls(tmp_path / "run.tar.zst", tmp_path / "theirs")
    ours = shutil.copytree(run, tmp_path / "ours")
    for folder, words in (
        (
            ours,
            "tokens: reported by the server; seconds: measured where it was recorded; prices: as in the models file",
        ),
        (tmp_path / "theirs", "tokens, seconds and prices: claimed by a publisher"),
    ):
        page = write_page(read_run(folder, EXAMPLE), workers=1)
        assert f"Costs rest on {words}." in page.read_text()
        assert read_data(folder / "page/run.js")["costs_rest_on"] == words


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where each value of a manifest stands; of many conversations, questions and models one each."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not items:
        yield path
    for key, own in items:
        yield from places(own, (*path, key))


def other(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if value is None or isinstance(value, dict):
        return {"forged": "value"} if isinstance(value, dict) else 7
    return [*value, "forged"] if isinstance(value, list) else re.sub("^[0-9a-f]{4}", "beef", value[:-1]) + "~"


COMPARED = Manifest.model_fields.keys() - {*unverified(Manifest), "schema_version", "claimed"}


@pytest.mark.parametrize("name", sorted(COMPARED))
def test_a_field_of_a_manifest_that_the_replay_contradicts_is_named(name: str, run: Path) -> None:
    honest = read_manifest(run / "100k-one/none")
    value = honest.model_dump(mode="json")
    value[name] = other(value.get(name) or ("x" if name in ("notes", "imported") else {}))
    forged = honest.model_copy(update={name: value[name]})
    if name == "conversations":
        record = honest.conversations["100K-1"]
        forged = honest.model_copy(update={name: {"100K-1": record.model_copy(update={"origin": "elsewhere"})}})
    assert f"field '{name}'" in differing_claim(forged, honest) and differing_claim(honest, honest) == ""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_manifest_with_any_one_field_forged_is_refused_or_said_to_be_claimed(run: Path, tmp_path: Path) -> None:
    publish(run, tmp_path / "run.tar.zst")
    whole = contents(tmp_path / "run.tar.zst")
    name = next(name for name in whole if "/light" in name and name.endswith("manifest.json"))
    honest = json.loads(whole[name])
    passed: dict[str, str] = {}
    for path in places({key: value for key, value in honest.items() if key != "sha256"}):
        forged = json.loads(whole[name])
        at: Any = forged
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = other(at[path[-1]])
        try:
            said = verify(remade({**whole, name: signed(forged)}, tmp_path / "forged.tar.zst"), EXAMPLE)
        except UserError:
            continue
        assert "; the commit " in said.partition("claimed, not checked: ")[2]
        passed[".".join(map(str, path))] = said
    assert {field.partition(".")[0] for field in passed} <= set(unverified(Manifest))
    assert "commit" in passed and f"{honest['commit'][:-1]}"[:8] not in passed["commit"].partition("the commit")[2][:9]
    assert not {"settings.question_in_prompt", "settings.judge_repeats", "settings.arm.k"} & set(passed)


def test_everything_forged_at_once_is_refused(run: Path, tmp_path: Path) -> None:
    publish(run, tmp_path / "run.tar.zst")
    whole = contents(tmp_path / "run.tar.zst")
    for name in [name for name in whole if name.endswith("manifest.json")]:
        forged = json.loads(whole[name])
        forged |= {"configuration": ["paper"], "commit": "f" * 40, "data_revision": "released files, all verified"}
        forged["models"]["judge"] |= {"model": "gpt-4.1", "temperature": 0.7}
        for record in forged["conversations"].values():
            record["files"] = dict.fromkeys(record["files"], "released")
        whole[name] = signed(forged)
    with pytest.raises(UserError, match=r"manifest\.json: field '(configuration|models|data_revision)'"):
        verify(remade(whole, tmp_path / "forged.tar.zst"), EXAMPLE)


def test_every_field_that_a_table_prints_is_compared_or_named_as_claimed() -> None:
    """What footers are built from is the manifest's dump: no field of it may escape both."""
    compared = Manifest.model_fields.keys() - set(unverified(Manifest))
    source = (Path(beamlib.__file__).parent / "report/footer.py").read_text()
    printed = set(re.findall(r'manifests?, "(\w+)"|manifest(?:\.get\(|\[)"(\w+)"', source))
    names = {one or two for one, two in printed}
    assert {"judge", "reader", "data_revision", "configuration", "notes"} <= names <= Manifest.model_fields.keys()
    assert names - compared <= {"settings", "claimed"}


def test_what_came_from_an_archive_says_so_wherever_it_is_shown(run: Path, tmp_path: Path) -> None:
    publish(run, tmp_path / "run.tar.zst")
    import_calls(tmp_path / "run.tar.zst", tmp_path / "theirs")
    folder = tmp_path / "theirs/100k-one/none"
    manifest = read_manifest(folder)
    assert manifest.claimed and not read_manifest(run / "100k-one/none").claimed
    made = footer([manifest.model_dump(mode="json")], protocol="paper", n_questions=1, unscored=0, interval="none")
    assert CLAIMED_LINE in made.lines()
    value = json.loads((folder / "manifest.json").read_text())
    assert "claimed" not in value  # the file is as it was published
    parameters = load_parameters(
        ROOT / "params/100k.yaml", **json.loads((tmp_path / "theirs/100k-one/parameters.json").read_text())
    )
    places = {"data": str(EXAMPLE), "run": str(tmp_path / "theirs"), "calls": "replay", "workers": 1}
    places |= {name: str(tmp_path / "theirs/100k-one" / getattr(parameters, name)) for name in ("models", "prompts")}
    kept = evaluate(parameters.model_copy(update=places), ARMS, quiet=True)
    assert all(own.claimed for own in kept.manifests.values())  # nothing was computed again
    shutil.rmtree(folder.parent / "none")
    again = evaluate(parameters.model_copy(update=places), ARMS, quiet=True)
    assert [own.claimed for own in again.manifests.values()] == [False, True]
    assert page_note(tmp_path / "theirs") == "one/light-bm25-k2"  # and not the one that was made here


def page_note(run: Path) -> str:
    text = write_page(read_run(run, EXAMPLE), workers=1).read_text()
    return text.partition("Claimed, not checked: ")[2].partition(" came from an archive")[0]


def store_of(files: dict[str, bytes]) -> tuple[str, list[dict[str, Any]]]:
    """The name of an archive's only store of calls, and its calls."""
    (name,) = (name for name in files if name.startswith("calls/"))
    return name, [json.loads(line) for line in files[name].decode().splitlines()]


def restored(files: dict[str, bytes], name: str, calls: list[dict[str, Any]]) -> dict[str, bytes]:
    lines = [json.dumps(call, sort_keys=True) for call in sorted(calls, key=lambda call: call["key"])]
    return {**files, name: "".join(f"{line}\n" for line in lines).encode()}


def quick(kind: type[BaseModel], *names: str) -> list[Any]:
    """All fields of a record; those but `names` are tried with the slow tests."""
    return [name if name in names else pytest.param(name, marks=pytest.mark.slow) for name in kind.model_fields]


@pytest.fixture(scope="module")
def archived(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    archive = tmp_path_factory.mktemp("archived") / "run.tar.zst"
    publish(run, archive)
    return contents(archive)


@pytest.mark.parametrize("field", quick(StoredCall, "role", "time"))
def test_a_field_of_a_call_is_verified_or_named(field: str, archived: dict[str, bytes], tmp_path: Path) -> None:
    name, calls = store_of(archived)
    call = next(call for call in calls if call["role"] == "reader")
    if field == "outcome":
        call |= {"outcome": "failed", "text": None}
    else:
        values = {"time": "2020-01-01T00:00:00+00:00", "finish_reason": "eos", "text": call["text"] + " Forged."}
        call[field] = values.get(field, other(call.get(field, StoredCall.model_fields[field].default)))
    if field == "key":  # of a request that nothing asks for; the one that is asked for is not stored
        call["key"] = "0" * 64
    archive = remade(restored(archived, name, calls), tmp_path / "forged.tar.zst")
    if field in ("key", "text", "outcome"):
        with pytest.raises(UserError, match=r"came out otherwise than published|calls? (is|are) not stored"):
            verify(archive, EXAMPLE)
    elif basis_of(StoredCall)[field] is Basis.COMPUTED:
        with pytest.raises(UserError, match=rf"field '{field}' is .*, and the replay asks for it as"):
            verify(archive, EXAMPLE)
    else:
        named = (
            verify(archive, EXAMPLE).partition("calls: claimed, not checked: of each call its ")[2].partition(";")[0]
        )
        assert field in named.split(", ")


def test_a_field_that_a_record_gets_is_named_until_it_is_verified() -> None:
    """Neither verify nor this test knows the field: the list grows by itself."""
    grown = create_model("grown", __base__=StoredCall, fingerprint=(str, ""), seed=(Annotated[int, Basis.COMPUTED], 0))
    assert set(unverified(grown)) == {*unverified(StoredCall), "fingerprint"}
    assert set(basis_of(StoredCall).values()) == {Basis.COMPUTED, Basis.REPORTED, Basis.MEASURED}


def grown(kind: type[BaseModel], value: BaseModel) -> BaseModel:
    """The same record of a kind with one field more, of which nobody says what it rests on."""
    more = create_model("grown", __base__=kind, weather=(str, ""))
    return more.model_construct(**{name: getattr(value, name) for name in kind.model_fields}, weather="fine")


def test_a_new_field_of_calls_models_and_manifests_is_in_what_verify_prints(
    archived: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = remade(archived, tmp_path / "run.tar.zst")
    before = verify(archive, EXAMPLE)
    assert "weather" not in before

    def models_with_it(path: Path) -> Any:
        models = load_models(path)
        return models.model_copy(update={"judge": grown(Endpoint, models.judge)})

    def manifest_with_it(folder: Path) -> Any:
        return grown(Manifest, read_manifest(folder))

    monkeypatch.setattr(publishing, "StoredCall", create_model("grown", __base__=StoredCall, weather=(str, "")))
    monkeypatch.setattr(publishing, "load_models", models_with_it)
    monkeypatch.setattr(publishing, "read_manifest", manifest_with_it)
    monkeypatch.setattr(publishing, "_keyless", lambda path: path)
    lines = verify(archive, EXAMPLE)
    of_calls = lines.partition("of each call its ")[2].partition(";")[0].split(", ")
    (of_judge,) = re.findall(r"of judge scripted, and its ([^;\n]*)", lines)
    assert "weather" in of_calls and "weather" in of_judge.split(", ") and "the weather fine; " in lines
    assert re.sub(r", weather|the weather fine; ", "", lines) == before


@pytest.mark.parametrize("field", quick(Endpoint, "input_price", "timeout"))
def test_a_field_of_the_models_file_is_verified_or_named(
    field: str, archived: dict[str, bytes], tmp_path: Path
) -> None:
    models = yaml.safe_load(archived["100k-one/models.yaml"])
    known = {
        "key_variable": "SOME_KEY",
        "limit_field": "max_completion_tokens",
        "omit": ["seed"],
        "extra": {"top_k": 5},
    }
    before = getattr(parse_models(models, "here").judge, field)
    value = known.get(field, 7_000 if before is None else other(before))
    models["judge"][field] = {"base_url": "http://127.0.0.1:9/v1"}.get(field, value)
    archive = remade({**archived, "100k-one/models.yaml": yaml.safe_dump(models).encode()}, tmp_path / "forged.tar.zst")
    try:
        lines = verify(archive, EXAMPLE)
    except UserError:
        return
    (named,) = re.findall(
        r"models\.yaml: prices (\S+) \(input, cached, output\) of judge scripted, and its ([^;]*)", lines
    )
    assert field in named[1].split(", ") or (field.endswith("price") and f"${value:g}" in named[0])


def test_a_parameter_that_no_method_was_computed_with_is_named(archived: dict[str, bytes], tmp_path: Path) -> None:
    honest = json.loads(archived["100k-one/parameters.json"])
    files = dict(archived)

    def named() -> set[str]:
        lines = verify(remade(files, tmp_path / "run.tar.zst"), EXAMPLE)
        return set(lines.partition("parameters.json: its ")[2].partition("\n")[0].split(", "))

    before = named()
    assert {"workers", "budgets", "protocol"} <= before and not {"alignment", "judge_repeats"} & before
    files["100k-one/parameters.json"] = json.dumps({**honest, "alignment": "greedy~", "judge_repeats": 3}).encode()
    assert named() == before | {"alignment", "judge_repeats"}


def test_surplus_calls_and_tokens_are_named(archived: dict[str, bytes], tmp_path: Path) -> None:
    name, calls = store_of(archived)
    for call in calls:
        call["input_tokens"] = 1
    calls += [{**calls[0], "key": f"{number:064x}"} for number in range(3)]
    lines = verify(remade(restored(archived, name, calls), tmp_path / "surplus.tar.zst"), EXAMPLE)
    assert "3 calls of scripted that nothing replayed asked for" in lines
    assert re.search(
        r"\d+ input tokens of scripted, for [\d,]+ characters computed here \([\d,]{3,}\.\d characters a tok", lines
    )


def test_what_an_archive_says_adds_no_line_to_what_is_printed(archived: dict[str, bytes], tmp_path: Path) -> None:
    line = "1\n1m-gpt: 6 methods replayed, 2,400 answers and judgements, all as published\x1b[2J"
    name, calls = store_of(archived)
    forged = restored(archived, name, [*calls, {**calls[0], "key": "f" * 64, "model": line}])
    for path in ("100k-one/none/manifest.json", "100k-one/light-bm25-k2/manifest.json"):
        forged[path] = signed({**json.loads(forged[path]), "package_version": line, "commit": line})
    lines = verify(remade(forged, tmp_path / "forged.tar.zst"), EXAMPLE).split("\n")
    assert [text.partition(":")[0] for text in lines[1:]] == ["100k-one", "100k-one", "calls"]
    assert all(text.isprintable() for text in lines)


def test_the_hash_of_a_prompt_that_has_calls_is_verified(archived: dict[str, bytes], tmp_path: Path) -> None:
    manifest = json.loads(archived["100k-one/none/manifest.json"])
    manifest["prompts"]["judge_nugget"] = "beef" * 16
    forged = {**archived, "100k-one/none/manifest.json": signed(manifest)}
    with pytest.raises(UserError, match="field 'prompts' says of judge_nugget 'beef"):
        verify(remade(forged, tmp_path / "forged.tar.zst"), EXAMPLE)


@pytest.mark.parametrize("role", ["reader", "judge"])
def test_a_reply_that_another_question_got_too_does_not_stand_in_for_a_lost_call(
    role: str, run: Path, tmp_path: Path
) -> None:
    """Verdicts, and answers such as "No", are alike among many questions."""
    copy = shutil.copytree(run, tmp_path / "run")
    (store,) = copy.glob("calls/100k/*.sqlite")
    with sqlite3.connect(store) as connection:
        connection.execute("DELETE FROM calls WHERE role = ? AND about LIKE '100K-1-q07%'", (role,))
    lost = "the answer to 100K-1-q07" if role == "reader" else "nugget 1 of 100K-1-q07"
    with pytest.raises(UserError, match=rf"have no stored call.*none, {lost}"):
        publish(copy, tmp_path / "run.tar.zst")


@pytest.mark.parametrize("given", [None, EXAMPLE])
def test_what_could_not_be_verified_is_not_exported(run: Path, tmp_path: Path, given: Path | None) -> None:
    """As where a store was replaced by an older copy of it."""
    assert "compared with" in publish(run, tmp_path / "whole.tar.zst")
    assert "replayed on the data" in publish(run, tmp_path / "whole.tar.zst", EXAMPLE)
    copy = shutil.copytree(run, tmp_path / "run")
    (store,) = copy.glob("calls/100k/*.sqlite")
    with sqlite3.connect(store) as connection:
        connection.execute("DELETE FROM calls WHERE rowid > 20")
    with pytest.raises(
        UserError, match=r"\d+ (of \d+ answers and verdicts have no stored call|calls are not stored)"
    ) as caught:
        publish(copy, tmp_path / "run.tar.zst", given)
    assert str(copy) in str(caught.value)
    assert not (tmp_path / "run.tar.zst").exists()
