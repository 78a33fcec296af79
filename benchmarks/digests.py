"""Digests of what must not change while code moves: `python benchmarks/digests.py --help`.

    python benchmarks/digests.py --out before.json                        # some minutes, offline
    python benchmarks/digests.py --out after.json --against before.json   # names what differs, exit code 1

Commands run in processes of their own and nothing here imports the product, so it works however modules are called. The
conversations are small and by the offline stand-in, not a language model; calls of a language model are replayed from a
recording (`tests/record_calls.py`). `--keep FOLDER` keeps what was compared, for `diff -r`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
import yaml
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
RECORDED = Path(__file__).with_name("recorded_calls.tar.xz")
"""What `tests/record_calls.py` recorded: models file, stores of the generated data, and `RUN`, a published run."""
MODELS, GENERATED, DIALOGUES, RUN = "models.yaml", "generated", "dialogues", "run.tar.zst"

GENERATE = ("generate", "--size", "100k", "--domain", "coding", "--seed", "7", "--workers", "1")
TALK = ("memorycode", "generate", "--counts", "1,2,3", "--seed", "7")
ASK = ("memorycode", "run", "--set", "k=2", "--set", "workers=1")

DOMAINS = {"general": "Career and Professional Development", "coding": "Coding", "math": "Math"}
SIZES = ("100K", "500K", "1M", "10M")
SMALL = (
    "subplans=[2,2,2]",
    "bullets_per_subplan=[20,23,25]",
    "batches_per_subplan=[5,5,5]",
    "questions_per_batch=[4,4,4]",
)
"""Two sub-plans a plan make a small 10M conversation; its ten plans and their people stay."""
PROTOCOLS = ("paper", "released-code", "f1-weighted", "nugget-mean", "binary")
ORDERS = ("dialogue-mean", "position-mean", "rule-mean")
COMMANDS = (
    "data check", "data audit", "data errata", "data download", "evidence", "score", "tables", "claims", "preflight",
    "estimate", "calls export", "calls import", "calls verify", "generate", "titles", "run-all", "memorycode score",
    "memorycode generate", "memorycode run",
)  # fmt: skip
DATA = frozenset({".csv", ".json", ".toml", ".safetensors", ".mplstyle", ".j2", ".yaml"})
"""Suffixes of the packages' data files, which are compared by name wherever they are."""

GROUPS = ("run", "generated", "recorded", "options", "files")
"""The groups of digests, the slowest first."""

FIELDS = frozenset(
    {"commit", "package_version", "answers_key", "judgements_key", "code_sha256", "rules", "key", "seconds", "python"}
)
"""Fields of records whose texts are about the code and not about its results; values of other types are compared."""

LEFT_OUT = (
    "places: the work folder, the checkout and the run's name are written WORK, ROOT and RUN",
    f"fields of JSON that hold text: {', '.join(sorted(FIELDS))}, and a record's hash of itself (sha256 at its top)",
    "commits (after the word), Python's and packages' versions, durations in seconds, numbers of objects (0x...)",
    "of notebooks: sources, errors and progress (stderr) and pictures; what cells print and show is compared",
    "PDF and PNG of figures (their CSV and JSON are compared), HTML of notebooks, the page index.html",
    "times.log, which is measured",
    "readings/, which LIGHT keeps by a hash of its code, and the bytes of call stores (their keys are compared)",
    "more than two sub-plans of 10M, 500K and 1M, retrievers that have to be downloaded, the variant released",
)
"""What no digest covers."""

_WORDS = (
    (re.compile(r"(?i)(\bcommit\W{1,9})[0-9a-f]{40}(\+changes)?"), r"\1COMMIT"),
    (re.compile(r"(?m)^(python|versions) .*$"), r"\1"),
    (re.compile(r"\b\d+(\.\d+)? s\b"), "TIME"),
    (re.compile(r"0x[0-9a-f]{6,}"), "0x"),
)
_DATA_VARIABLES = ("BEAM_DATA", "MEMORYCODE_DATA")
_SETTINGS = {"HF_HUB_OFFLINE": "1", "COLUMNS": "200"}

Item = tuple[str, bytes]
"""The name of something that must not change, and its content."""
Measured = dict[str, dict[str, str]]
"""Digests by name, by group."""


class CommandFailed(Exception):
    """A command ended with an unexpected exit code."""


@dataclass(frozen=True)
class Product:
    """The checkout's command line; `work` is an empty folder for its files, `name` that of a run folder."""

    work: Path
    name: str

    @property
    def run(self) -> Path:
        """The run folder: commands write it below the checkout."""
        return ROOT / "runs" / self.name

    def call(self, *words: str | Path, codes: Sequence[int] = (0,)) -> str:
        """Run a command and return its output; raise `CommandFailed` for an exit code that is not in `codes`."""
        beamlib = Path(sys.executable).with_name("beamlib")
        if not beamlib.exists():
            raise CommandFailed(f"{beamlib}: not there; run this by the Python that the package is installed for.")
        path = os.pathsep.join(filter(None, (str(ROOT), str(ROOT / "packages"), os.environ.get("PYTHONPATH"))))
        own = {name: value for name, value in os.environ.items() if name not in _DATA_VARIABLES}
        command = [str(beamlib), *map(str, words)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=self.work,
            env=own | _SETTINGS | {"PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
        )
        if done.returncode not in codes:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
            raise CommandFailed(f"{' '.join(command[1:])}: exit code {done.returncode}: {lines[-1].strip()}")
        return done.stdout

    def clear(self) -> None:
        """Delete what commands wrote below the checkout."""
        for folder in (self.run, ROOT / "figures" / self.name):
            shutil.rmtree(folder, ignore_errors=True)

    def replay(self, archive: Path = RECORDED) -> str:
        """Repeat everything in `archive` from its calls alone; return the checks of the published run.

        The data goes to `work`, MemoryCode's answers to the run folder. Raises `CommandFailed` for a missing call.
        """
        with tarfile.open(archive) as tar:
            tar.extractall(self.work, filter="data")
        replay = ("--models", self.work / MODELS, "--calls", "replay")
        self.call(*GENERATE, *replay, "--out", self.work / GENERATED)
        self.call(*TALK, *replay, "--out", self.work / DIALOGUES)
        checks = self.call("calls", "verify", self.work / RUN, "--data", self.work / GENERATED)
        self.call("calls", "import", self.work / RUN, self.run)
        # The scripted server's replies to the noise filter were never a yes or a no, so nothing of LIGHT is scored (4).
        self.call(*ASK, *replay, "--data", self.work / DIALOGUES, "--name", self.name, codes=(4,))
        return checks


class Normaliser:
    """Takes `places` (text: its substitute) and all of `LEFT_OUT` out of files."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = sorted(places.items(), key=lambda item: -len(item[0]))

    def text(self, text: str) -> str:
        """Return a text as it is compared."""
        for there, name in self.places:
            text = text.replace(there, name)
        for pattern, plain in _WORDS:
            text = pattern.sub(plain, text)
        return text

    def file(self, path: Path) -> bytes:
        """Return the content of a file as it is compared; binary files stay as they are."""
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return path.read_bytes()
        if path.suffix == ".ipynb":
            text = "\n".join(_outputs(json.loads(text)))
        elif path.suffix == ".json":
            text = as_json(_without_fields(json.loads(text), top=True))
        return self.text(text).encode()


def short(data: bytes) -> str:
    """Return sixteen characters of the SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]


def as_json(value: Any) -> str:
    """Write JSON with sorted keys, one value a line, so that two of them can be compared by eye."""
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False)


def _without_fields(value: Any, *, top: bool = False) -> Any:
    if isinstance(value, list):
        return [_without_fields(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    kept = {name: own for name, own in value.items() if not (isinstance(own, str) and name in FIELDS)}
    return {name: _without_fields(own) for name, own in kept.items() if not (top and name == "sha256")}


def _outputs(notebook: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the cells of an executed notebook print and show."""
    for output in (output for cell in notebook["cells"] for output in cell.get("outputs", [])):
        if output["output_type"] == "stream" and output["name"] == "stdout":
            yield "".join(output["text"])
        for kind, shown in sorted(output.get("data", {}).items()):
            if kind.startswith("text/"):
                yield "".join(shown)


class Digests:
    """The items, group by group; each method named like a group yields its items."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.normal = Normaliser({str(product.work): "WORK", str(ROOT): "ROOT", product.name: "RUN"})

    def output(self, name: str, *words: str | Path, codes: tuple[int, ...] = (0,)) -> Item:
        """Return the output of a command."""
        return name, self.normal.text(self.product.call(*words, codes=codes)).encode()

    def below(self, group: str, folder: Path, pattern: str = "*", without: str = r"\.sqlite$") -> Iterator[Item]:
        """Yield the files below a folder that match."""
        for path in sorted(folder.rglob(pattern)):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and not re.search(without, name):
                yield f"{group}/{name}", self.normal.file(path)

    def files(self) -> Iterator[Item]:
        """Yield prompts, resolved parameters and the packages' data."""
        yield from self.below("prompts", ROOT / "prompts", "*.md")
        for size in SIZES:
            values: dict[str, object] = {}
            for path in (ROOT / "params" / "base.yaml", ROOT / "params" / f"{size.lower()}.yaml"):
                own = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
                values |= {**own.pop("settings", {}), **own}
            yield from ((f"params/{size}/{name}", as_json(value).encode()) for name, value in values.items())
        for path in sorted(path for top in ("beamlib", "packages") for path in (ROOT / top).rglob("*.*")):
            if path.is_file() and path.suffix in DATA:
                yield f"data/{path.name}", path.read_bytes()

    def options(self) -> Iterator[Item]:
        """Yield the options of every command."""
        for command in COMMANDS:
            options = re.findall(r"(?<![\w-])--[a-z][a-z-]*", self.product.call(*command.split(), "--help"))
            yield f"options/{command}", "\n".join(sorted(set(options))).encode()

    def generated(self) -> Iterator[Item]:
        """Yield conversations of three styles and two sizes; a stage that gives up ends one, which is compared too."""
        for style, domain in DOMAINS.items():
            for size in ("100k", "10m"):
                folder = self.product.work / f"{style}-{size}"
                words = ["--size", size, "--domain", domain, "--seed", "7", "--workers", "1", "--out", folder]
                if size == "10m":
                    words += ["--strategy", "sequential" if style == "coding" else "hierarchical"]
                    words += [word for setting in SMALL for word in ("--set", setting)]
                yield self.output(f"generated/{folder.name}/said", "generate", *words, codes=(0, 2))
                yield from self.below(f"generated/{folder.name}", folder)
        hundred = self.product.work / "coding-100k"
        yield self.output("data-check", "data", "check", hundred, "--json")
        yield self.output("data-audit", "data", "audit", hundred, "--json")
        yield self.output("evidence", "evidence", "--data", hundred, "--k", "5,20", "--json")
        models, sizes = ROOT / "params" / "models.yaml", ROOT / "params" / "100k.yaml"
        yield self.output("estimate", "estimate", sizes, "--data", hundred, "--models", models, "--json")

    def run(self) -> Iterator[Item]:
        """Yield the default run on two conversations, its notebooks and MemoryCode, and what commands read off it."""
        run = self.product.run
        words = ("--sizes", "100k", "--conversations", "2", "--name", self.product.name, "--set", "workers=1")
        self.product.call("run-all", *words)
        yield "layout/run", "\n".join(sorted(p.relative_to(run).as_posix() for p in run.rglob("*"))).encode()
        yield from self.below(
            "run", run, without=r"\.(sqlite|pdf|png)$|^notebooks/.*\.html$|^index\.html$|^readings/|/times\.jsonl$"
        )
        for protocol in PROTOCOLS:
            yield self.output(f"scores/{protocol}", "score", run, "--protocol", protocol, "--json")
        yield self.output("scores/tables", "tables", run, "--json")
        for claim in json.loads(self.product.call("claims", "--json")):
            yield f"claims/{claim['id']}", as_json(claim).encode()
        for order in ORDERS:
            words = ("--dialogues", run / "memorycode" / "data", "--outputs", run / "memorycode" / "outputs")
            yield self.output(f"scores/memorycode/{order}", "memorycode", "score", *words, "--order", order, "--json")

    def recorded(self) -> Iterator[Item]:
        """Yield the results of recorded calls alone, and the calls; a missing one ends everything."""
        product = Product(self.product.work / "recorded", f"{self.product.name}-recorded")
        product.work.mkdir()
        try:
            yield "recorded/verified", re.sub(r"\S+/", "", product.replay()).encode()
            yield from self.below("recorded/generated", product.work / GENERATED)
            yield from self.below("recorded/dialogues", product.work / DIALOGUES)
            yield from self.below("recorded/memorycode", product.run / "memorycode")
            for folder in (product.work, product.run):
                for path in sorted(folder.rglob("*.sqlite")):
                    yield from _calls(path, path.relative_to(folder).as_posix())
        finally:
            product.clear()


def _calls(path: Path, name: str) -> Iterator[Item]:
    """Yield the keys of a call store by step, and its schema."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as store:
        steps: dict[str, list[str]] = {}
        for step, key in store.execute("SELECT step, key FROM calls ORDER BY step, key"):
            steps.setdefault(step, []).append(key)
        tables = store.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
    for step, keys in steps.items():
        yield f"keys/{name}/{step}", "\n".join(keys).encode()
    yield f"records/{name}", "\n".join(sql for (sql,) in tables).encode()


def measure(groups: Iterable[str], keep: Path | None) -> Measured:
    """Compute the digests of the named groups; write their contents to `keep`."""
    with TemporaryDirectory(prefix="digests-") as folder:
        product = Product(Path(folder).resolve(), f"digests-{uuid.uuid4().hex[:8]}")
        digests = Digests(product)
        try:
            with ThreadPoolExecutor(2) as pool:
                work = {pool.submit(lambda name: dict(getattr(digests, name)()), name): name for name in groups}
                done = tqdm(as_completed(work), desc="digests", unit="group", total=len(work))
                items = {work[future]: future.result() for future in done}
        finally:
            product.clear()
    for name, data in ((name, data) for own in items.values() for name, data in own.items()) if keep else ():
        place = Path(keep or "") / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return {group: {name: short(data) for name, data in sorted(own.items())} for group, own in sorted(items.items())}


def differences(before: Measured, after: Measured) -> Iterator[str]:
    """Yield a line for each item that differs, is gone or is new, of the groups that both have."""
    for group in before.keys() & after.keys():
        old, new = before[group], after[group]
        yield from (f"gone     {name}" for name in old if name not in new)
        yield from (f"new      {name}" for name in new if name not in old)
        yield from (f"differs  {name}" for name in old if old[name] != new.get(name, old[name]))


def read(path: Path) -> Measured:
    """Read the digests in a file that `--out` wrote."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["groups"])
    except (OSError, ValueError, KeyError, TypeError):
        raise CommandFailed(f"{path}: holds no digests; make it with --out.") from None


def main(
    measured: Annotated[Path | None, typer.Argument(help="Digests on file; by default they are computed now.")] = None,
    against: Annotated[Path | None, typer.Option(help="Name what differs from these; exit code 1 if anything.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the digests here.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Write what the digests are of there, for diff -r.")] = None,
    only: Annotated[str, typer.Option(help=f"Groups, separated by commas, of {', '.join(GROUPS)}.")] = "",
) -> None:
    """Compute digests of files, options, generated data, a default run, and replayed calls, and compare them."""
    groups = tuple(name for name in only.split(",") if name) or GROUPS
    if unknown := set(groups) - set(GROUPS):
        raise CommandFailed(f"--only: there is no group {min(unknown)!r}; choose of {', '.join(GROUPS)}.")
    if (ROOT / "data" / "memorycode").exists():
        raise CommandFailed("data/memorycode: the default run would take these dialogues; move them away meanwhile.")
    before = read(against) if against else {}
    digests = read(measured) if measured else measure(groups, keep)
    count = sum(map(len, digests.values()))
    text = json.dumps({"left_out": LEFT_OUT, "groups": digests}, indent=1)
    if out:
        out.write_text(text + "\n", encoding="utf-8")
    if against:
        changes = sorted(differences(before, digests))
        print("\n".join([*changes, f"{count} digests, {len(changes)} differences"]))
        raise typer.Exit(bool(changes))
    print(f"wrote {out}: {count} digests" if out else text)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    try:
        app()
    except CommandFailed as error:
        print(f"benchmarks/digests.py: {error}", file=sys.stderr)
        raise SystemExit(2) from None
