"""Archives of runs: what goes in comes out, equal content is equal bytes, and no bad archive changes anything."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard

from beam_run import archive as archive_module
from beam_run.archive import export_calls, import_calls, verify_archive
from beamlib.errors import UserError
from beamlib.evaluate.beam_records import FROM_ARCHIVE
from beamlib.files import sha256
from beamlib.llm.model import Outcome
from beamlib.llm.stored_model import CallStore, StoredCall
from remade_archives import Members, members_of, named, rebuilt, unpacked, unpadded


def stored(number: int, **changes: Any) -> StoredCall:
    return StoredCall(
        **{
            "key": key_of(number),
            "role": "judge",
            "conversation": "3",
            "step": "judge_nugget",
            "about": "3-01",
            "model": "tiny",
            "base_url": "http://127.0.0.1:9/v1",
            "text": f"verdict {number} é\u2028",
            "input_tokens": 10,
            "output_tokens": number,
            "cached_tokens": 4,
            "latency": 0.1 * number,
            "finish_reason": "stop",
            "time": "2026-01-01T00:00:00.000+00:00",
            **changes,
        }
    )


def key_of(number: int) -> str:
    return sha256(str(number))


def held(run: Path) -> dict[str, list[StoredCall]]:
    found = {}
    for path in sorted(run.rglob("*.sqlite")):
        with CallStore(path, read_only=True) as store:
            found[path.relative_to(run).as_posix()] = list(store.calls())
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def make_run(run: Path, order: int = 1) -> Path:
    for name, numbers in (("100k/3", range(40)), ("100k/10", range(40, 45)), ("1m/3", range(3))):
        with CallStore(run / "calls" / f"{name}.sqlite") as store:
            store.add(stored(number) for number in list(numbers)[::order])
    with CallStore(run / "calls" / "1m" / "3.sqlite") as store:
        store.put(
            stored(99, output_tokens=0, latency=0.0, text=None, outcome=Outcome.FILTERED, message="no", model="other")
        )
    (run / "100k" / "light").mkdir(parents=True)
    (run / "100k" / "light" / "manifest.json").write_bytes(b'{"arm": "light"}')
    (run / "100k" / "models.yaml").write_bytes(b"k: 5\n" * 300)
    return run


def export(run: Path, target: Path) -> Path:
    names = ("100k/models.yaml", "100k/light/manifest.json")
    export_calls(run / "calls", target, {name: run / name for name in names})
    return target


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run; read only."""
    return make_run(tmp_path_factory.mktemp("recorded") / "run")


@pytest.fixture(scope="module")
def exported(run: Path) -> bytes:
    return export(run, run.parent / "run.tar.zst").read_bytes()


@pytest.fixture
def archive(exported: bytes, tmp_path: Path) -> Path:
    """An archive of it, of the test's own."""
    path = tmp_path / "out" / "run.tar.zst"
    path.parent.mkdir()
    path.write_bytes(exported)
    return path


def test_a_run_comes_back(run: Path, archive: Path, tmp_path: Path) -> None:
    summary = import_calls(archive, tmp_path / "new")
    assert held(tmp_path / "new") == held(run) and len(held(run)["calls/100k/3.sqlite"]) == 40
    for name in ("100k/models.yaml", "100k/light/manifest.json"):
        assert (tmp_path / "new" / name).read_bytes() == (run / name).read_bytes()
    assert set(files(tmp_path / "new")) - {FROM_ARCHIVE} == set(files(run))
    assert summary == verify_archive(archive)
    assert (summary.files, summary.calls, summary.failures, summary.models) == (5, 49, 1, ("other", "tiny"))
    tokens = sum(range(45)) + sum(range(3))
    assert (summary.input_tokens, summary.cached_tokens, summary.output_tokens) == (490, 196, tokens)
    assert summary.sha256 == sha256(archive.read_bytes())


def test_equal_content_is_equal_bytes_wherever_and_however_it_was_recorded(archive: Path, tmp_path: Path) -> None:
    again = export(make_run(tmp_path / "elsewhere", -1), tmp_path / "again")
    imported = tmp_path / "imported"
    import_calls(archive, imported)
    assert again.read_bytes() == archive.read_bytes() == export(imported, tmp_path / "third").read_bytes()
    with CallStore(imported / "calls" / "1m" / "3.sqlite") as store:
        store.put(stored(0, latency=0.01))
    assert export(imported, tmp_path / "fourth").read_bytes() != archive.read_bytes()


def test_ordinary_tools_open_it_and_the_list_comes_first(archive: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(unpacked(archive))) as tar:
        members = tar.getmembers()
        assert [member.name for member in members] == [
            "archive.json", "calls/100k/10.jsonl", "calls/100k/3.jsonl", "calls/1m/3.jsonl",
            "100k/light/manifest.json", "100k/models.yaml",
        ]  # fmt: skip
        assert {(member.mode, member.uid, member.gid, member.mtime) for member in members} == {(0o644, 0, 0, 0)}
        listed = json.loads(tar.extractfile("archive.json").read())
        for member in members[1:]:
            data = tar.extractfile(member).read()
            assert listed["files"][member.name] == {"sha256": sha256(data), "size": len(data)}
        lines = tar.extractfile("calls/100k/3.jsonl").read().decode().removesuffix("\n").split("\n")
    assert [json.loads(line)["key"] for line in lines] == sorted(map(key_of, range(40)))


def test_importing_keeps_what_is_held_and_fills_in_what_is_missing(archive: Path, run: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    mine = stored(3, latency=9.0)
    with CallStore(new / "calls" / "100k" / "3.sqlite") as store:
        store.put(mine)
        store.put(stored(4, text=None, outcome=Outcome.UNAVAILABLE))
        store.put(stored(1000))
    for _ in range(2):
        import_calls(archive, new)
        with CallStore(new / "calls" / "100k" / "3.sqlite") as store:
            assert store.get(key_of(3)) == mine and store.get(key_of(4)) == stored(4)
            assert len(list(store.calls())) == 41
    assert held(new)["calls/1m/3.sqlite"] == held(run)["calls/1m/3.sqlite"]


@pytest.mark.parametrize(
    "mine", [stored(2, text="another verdict"), stored(2, text=None, outcome=Outcome.REFUSED, message="no")]
)
def test_another_reply_under_the_same_key_is_refused(archive: Path, tmp_path: Path, mine: StoredCall) -> None:
    new = tmp_path / "new"
    with CallStore(new / "calls" / "1m" / "3.sqlite") as store:
        store.put(mine)
    before = files(new)
    with pytest.raises(UserError, match=f"conversation 3 has another reply under the key {key_of(2)}"):
        import_calls(archive, new)
    assert files(new) == before


def test_a_file_with_other_content_is_refused(archive: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    (new / "100k").mkdir(parents=True)
    (new / "100k" / "models.yaml").write_text("k: 6\n")
    with pytest.raises(UserError, match=r"models\.yaml: differs from the one in"):
        import_calls(archive, new)
    assert files(new) == {"100k/models.yaml": b"k: 6\n"}


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    target = tmp_path / "out.tar.zst"
    with pytest.raises(UserError, match=r"no call stores"):
        export_calls(tmp_path / "nowhere", target)
    for name in ("../up", "/etc/passwd", "a//b", "calls/100k/3.jsonl", "archive.json", "x" * 101, "a b", ""):
        with pytest.raises(UserError, match="cannot be exported as"):
            export_calls(run / "calls", target, {name: run / "100k" / "models.yaml"})
    with pytest.raises(UserError, match=r"gone\.yaml"):
        export_calls(run / "calls", target, {"gone.yaml": run / "gone.yaml"})
    (run / "calls" / "100k" / "3.sqlite").write_bytes(b"damaged")
    with pytest.raises(UserError, match=r"3\.sqlite: not a call store"):
        export_calls(run / "calls", target)
    assert not target.exists() and sorted(path.name for path in tmp_path.iterdir()) == ["run"]


# --- archives made to be bad


def edited_calls(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Members], bytes]:
    def edit(members: Members) -> bytes:
        info, data = members[1]
        lines = [json.loads(line) for line in data.decode().removesuffix("\n").split("\n")]
        change(lines)
        members[1] = (info, "".join(json.dumps(line) + "\n" for line in lines).encode())
        return rebuilt(members)

    return edit


def other_list(**changes: Any) -> Callable[[Members], bytes]:
    def edit(members: Members) -> bytes:
        members[0] = (members[0][0], json.dumps({**json.loads(members[0][1]), **changes}).encode())
        return rebuilt(members, relist=False)

    return edit


def changed_file(members: Members) -> bytes:
    members[1] = (members[1][0], members[1][1].replace(b"verdict 41", b"verdict 17"))
    return rebuilt(members, relist=False)


def added(info: tarfile.TarInfo, data: bytes = b"x", *, relist: bool = True) -> Callable[[Members], bytes]:
    return lambda members: rebuilt([*members, (info, data)], relist=relist)


def replaced(info: tarfile.TarInfo) -> Callable[[Members], bytes]:
    """The last file, by its listed name, as something that is no file."""
    return lambda members: rebuilt([*members[:-1], (info, b"")], relist=False)


def lying_header(members: Members) -> bytes:
    data = bytearray(rebuilt(members))
    info = tarfile.TarInfo("100k/models.yaml")
    info.size = 1 << 40
    start = data.rindex(b"100k/models.yaml\0")
    data[start : start + 512] = info.tobuf(tarfile.GNU_FORMAT)
    return bytes(data)


def pax_bomb(members: Members) -> bytes:
    info = named("100k/models.yaml", tarfile.XHDTYPE)
    info.size = 1 << 34
    return unpadded(rebuilt(members[:-1], relist=False)) + info.tobuf(tarfile.GNU_FORMAT) + b"\0" * (1 << 20)


BAD: dict[str, tuple[Callable[[Members], bytes], str]] = {
    "changed file": (changed_file, "does not agree with its hash"),
    "changed order": (lambda m: rebuilt([m[0], m[2], m[1], *m[3:]], relist=False), "stands where the list names"),
    "left out": (lambda m: rebuilt(m[:-1], relist=False), "is missing"),
    "unlisted": (added(named("more.txt"), relist=False), "goes on after its last file"),
    "twice": (lambda m: rebuilt([*m, m[-1]]), "goes on after its last file"),
    "upwards": (added(named("../out.txt")), "no name for a file"),
    "absolute": (added(named("/tmp/out.txt")), "no name for a file"),
    "store": (added(named("calls/100k/3.sqlite")), "no name for a file"),
    "own list": (added(named("archive.json")), "no name for a file"),
    **{
        f"foreign name {name}": (added(named(name)), "no name for a file")
        for name in ("calls/secret/3.jsonl", "200k/models.yaml", "100k/light/run.py", "100k/../models.yaml", "a\\x")
    },
    "long name": (added(named("x" * 120)), "no name for a file"),
    "symbolic link": (
        replaced(named("100k/models.yaml", tarfile.SYMTYPE, "/etc/passwd")),
        "stands where the list names",
    ),
    "hard link": (
        replaced(named("100k/models.yaml", tarfile.LNKTYPE, "calls/1m/3.jsonl")),
        "stands where the list names",
    ),
    "device": (replaced(named("100k/models.yaml", tarfile.CHRTYPE)), "stands where the list names"),
    "folder": (replaced(named("100k/models.yaml", tarfile.DIRTYPE)), "stands where the list names"),
    "lying header": (lying_header, "stands where the list names"),
    "pax bomb": (pax_bomb, "stands where the list names"),
    "version": (other_list(format=2), "an archive of format 2"),
    "no version": (other_list(format=None), "an archive of format None"),
    "list field": (other_list(more=1), "cannot be read"),
    "list size": (other_list(files={"a": {"size": -1, "sha256": "0" * 64}}), "cannot be read"),
    "huge sizes": (
        other_list(files={f"1m-{n}/models.yaml": {"size": 60 << 30, "sha256": "0" * 64} for n in range(9)}),
        "unpack to",
    ),
    "huge manifest": (added(named("1m/a/manifest.json"), b"[" + b"[]," * 400_000 + b"1]"), "no such file needs"),
    "long line": (
        added(named("1m/a/answers.jsonl"), b"\n" + b"[" * ((64 << 20) + 1)),
        "a line of over 67,108,864 bytes",
    ),
    "no list": (lambda m: rebuilt(m[1:], relist=False), "stands where the list names"),
    "calls out of order": (edited_calls(lambda lines: lines.reverse()), "no call, or not in its place"),
    "strange key": (edited_calls(lambda lines: lines[0].update(key="0")), "no call, or not in its place"),
    "no text": (edited_calls(lambda lines: lines[0].update(text=None)), "no call, or not in its place"),
    "huge tokens": (edited_calls(lambda lines: lines[0].update(input_tokens=10**30)), "no call, or not in its place"),
    "not a number": (edited_calls(lambda lines: lines[0].update(latency=float("nan"))), "no call, or not in its place"),
    "half a pair": (edited_calls(lambda lines: lines[0].update(text="\ud800")), "no call, or not in its place"),
    "not an object": (edited_calls(lambda lines: lines.__setitem__(0, [])), "no call, or not in its place"),
    "not text": (added(named("calls/100k/9.jsonl"), b"\xff\n"), "no call, or not in its place"),
    "tail": (lambda m: rebuilt(m) + b"more" * 128, "goes on after its last file"),
}


def refused(archive: Path, tmp_path: Path, problem: str) -> None:
    """Neither verified nor imported, and nothing was written."""
    new = tmp_path / "new"
    (new / "100k" / "light").mkdir(parents=True)
    (new / "100k" / "light" / "manifest.json").write_bytes(b'{"arm": "light"}')
    before = files(tmp_path)
    with pytest.raises(UserError, match=problem) as error:
        import_calls(archive, new)
    assert str(archive) in str(error.value) and "\n" not in str(error.value)
    assert files(tmp_path) == before
    with pytest.raises(UserError, match=problem):
        verify_archive(archive)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_archive_changes_nothing(archive: Path, tmp_path: Path, name: str) -> None:
    make, problem = BAD[name]
    archive.write_bytes(zstandard.compress(make(members_of(archive))))
    refused(archive, tmp_path, problem)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda data: b"", "ends too early"),
        (lambda data: data[:-1], "ends too early"),
        (lambda data: data[: len(data) // 2], "ends too early"),
        (lambda data: data + b"\0", "appended"),
        (lambda data: gzip.compress(zstandard.decompress(data, 1 << 24)), "Unknown frame descriptor"),
    ],
)
def test_a_damaged_archive_changes_nothing(
    archive: Path, tmp_path: Path, make: Callable[[bytes], bytes], problem: str
) -> None:
    archive.write_bytes(make(archive.read_bytes()))
    refused(archive, tmp_path, problem)


def test_every_flipped_byte_is_noticed_or_harmless(archive: Path, run: Path, tmp_path: Path) -> None:
    data, rng, noticed = archive.read_bytes(), random.Random(0), 0
    for trial in range(30):
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        archive.write_bytes(flipped)
        try:
            import_calls(archive, tmp_path / f"new{trial}")
            assert held(tmp_path / f"new{trial}") == held(run)
        except UserError:
            noticed += 1
            assert not (tmp_path / f"new{trial}").exists()
    assert noticed > 25


def mangled(members: Members, rng: random.Random) -> bytes:
    """An archive with one to three things wrong: in the list, headers, content, order, format or compression."""
    number = rng.randrange(len(members))
    info, data = members[number]
    listed = json.loads(members[0][1])
    entry = listed["files"][rng.choice(sorted(listed["files"]))]
    odd = [None, -1, 0, 1 << 62, 10**400, "", "../../x", "/tmp/x", "x" * 5_000, "\x1b[2J", [], {}, True, 1.5]
    format = rng.choice([tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT])
    whole = b""
    for kind in rng.choices(
        ["type", "name", "link", "twice", "swap", "drop", "data", "size", "sha", "list", "cut"], k=2
    ):
        if kind == "type":
            info.type = rng.choice(b"0123456789KLSVgxX").to_bytes()
        elif kind == "name":
            info.name = rng.choice(["../x", "/tmp/x", "a\\b", "x" * 90, "\u00e9", "100k/models.yaml/..", ""])
        elif kind == "link":
            info.type, info.linkname = rng.choice([tarfile.SYMTYPE, tarfile.LNKTYPE]), rng.choice(["/etc/passwd", ".."])
        elif kind == "twice":
            members.insert(rng.randrange(len(members)), members[-1])
        elif kind == "swap":
            rng.shuffle(members)
        elif kind == "drop" and len(members) > 1:
            del members[rng.randrange(len(members))]
        elif kind == "data":
            members[min(number, len(members) - 1)] = (info, data[: rng.randrange(len(data) + 1)] + rng.randbytes(9))
        elif kind in ("size", "sha"):
            entry[{"size": "size", "sha": "sha256"}[kind]] = rng.choice(odd)
            members[0] = (members[0][0], json.dumps(listed).encode())
        elif kind == "list":
            listed[rng.choice(["format", "files", "more"])] = rng.choice(odd)
            members[0] = (members[0][0], json.dumps(listed).encode())
        elif kind == "cut":
            whole = rebuilt(members, relist=False, format=format)
            whole = whole[: rng.randrange(len(whole))] + rng.choice([b"", bytes(512), rng.randbytes(600)])
    whole = whole or rebuilt(members, relist=rng.random() < 0.3, format=format)
    pack = [zstandard.compress, zstandard.compress, gzip.compress, bz2.compress, lzma.compress, bytes]
    return rng.choice(pack)(whole) + rng.choice([b""] * 9 + [b"\0"])


def test_mangled_archives_are_refused_or_right(exported: bytes, archive: Path, run: Path, tmp_path: Path) -> None:
    new, refused = tmp_path / "new", 0
    rng, right = random.Random(3), held(run)
    for _ in range(120):
        archive.write_bytes(exported)
        archive.write_bytes(mangled(members_of(archive), rng))
        try:
            import_calls(archive, new)
        except UserError as error:
            refused += 1
            assert str(error).isprintable() and not new.exists()
        else:
            found = held(new)
            assert all(found[name] == right[name] for name in found)
            shutil.rmtree(new)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    assert refused > 95


def test_a_bomb_takes_neither_memory_nor_disk(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members = members_of(archive)[:2]
    head, body = unpadded(rebuilt(members)), io.BytesIO()
    with zstandard.ZstdCompressor(level=1).stream_writer(body, closefd=False) as writer:
        writer.write(head)
        for _ in range(300):
            writer.write(b"\0" * (1 << 20))  # what follows the last file: padding without end
        writer.write(b"x" * 512)
    archive.write_bytes(body.getvalue())
    assert len(body.getvalue()) < 1 << 16
    refused(archive, tmp_path, "goes on after its last file")
    monkeypatch.setattr(archive_module, "TOTAL_LIMIT", 1000)
    archive.write_bytes(zstandard.compress(rebuilt(members)))
    with pytest.raises(UserError, match=r"unpack to 2,035 bytes, where 1,000 are allowed"):
        verify_archive(archive)


@pytest.mark.parametrize("link", ["calls", "calls/100k", "100k", "100k/light", "calls/100k/3.sqlite"])
def test_nothing_is_written_through_a_link(archive: Path, tmp_path: Path, link: str) -> None:
    outside, place = tmp_path / "outside", tmp_path / "new" / link
    outside.mkdir()
    place.parent.mkdir(parents=True)
    place.symlink_to(outside / "new.sqlite" if link.endswith(".sqlite") else outside)
    with pytest.raises(UserError, match="a link leads out of"):
        import_calls(archive, tmp_path / "new")
    assert list(outside.iterdir()) == [] and files(tmp_path / "new") == {}


def test_an_archive_is_bounded_by_its_own_size(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "SMALL", 1 << 20)
    monkeypatch.setattr(archive_module, "RATIO", 100)
    members = members_of(archive)
    archive.write_bytes(zstandard.compress(rebuilt([*members, (named("1m/models.yaml"), bytes(64 << 20))])))
    refused(archive, tmp_path, r"unpack to [\d,]+ bytes, where 1,048,576 are allowed or free")


def test_what_does_not_fit_on_the_disk_is_not_begun(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=999))
    with pytest.raises(UserError, match="999 are allowed or free"):
        import_calls(archive, tmp_path / "new")
    assert verify_archive(archive).files == 5 and not (tmp_path / "new").exists()  # which needs no room


def test_export_refuses_what_import_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "_LINE_LIMIT", 2_000)
    for size, fits in ((1_000, True), (2_000, False)):
        with CallStore(tmp_path / str(size) / "100k" / "1.sqlite") as store:
            store.put(stored(1, text="x" * size))
        target = tmp_path / f"{size}.tar.zst"
        if fits:
            export_calls(tmp_path / str(size), target)
            assert import_calls(target, tmp_path / "run").calls == 1
            continue
        with pytest.raises(UserError, match=r"1\.sqlite: the reply of step .* is longer than an archive may hold"):
            export_calls(tmp_path / str(size), target)
        assert not target.exists()


@pytest.mark.parametrize("spot", ["100k", "100k/light", "calls/1m"])
def test_a_file_in_the_way_of_a_folder_is_seen_before_anything_is_written(
    archive: Path, tmp_path: Path, spot: str
) -> None:
    (tmp_path / "new" / spot).parent.mkdir(parents=True)
    (tmp_path / "new" / spot).write_text("mine")
    with pytest.raises(UserError, match=r"is a file where the archive has a folder"):
        import_calls(archive, tmp_path / "new")
    assert files(tmp_path / "new") == {spot: b"mine"}


def test_links_that_lead_round_in_a_circle_are_one_sentence(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "calls").symlink_to("calls")
    with pytest.raises(UserError, match="in a circle"):
        import_calls(archive, tmp_path / "new")


def test_a_file_that_is_another_ones_folder_is_refused(archive: Path, tmp_path: Path) -> None:
    members = members_of(archive)
    members += [(named("100k/models.yaml/manifest.json"), b"{}")]
    archive.write_bytes(zstandard.compress(rebuilt(members)))
    with pytest.raises(UserError, match=r"lists '100k/models.yaml' as a file and as the folder of"):
        import_calls(archive, tmp_path / "new")
    assert not (tmp_path / "new").exists()
