"""What must not change while code moves, as digests: `python benchmarks/digests.py --help`.

    python benchmarks/digests.py --out before.json                     # some minutes, offline
    python benchmarks/digests.py --out after.json --against before.json   # names what differs, exit code 1

It asks the product through its command line and reads what that writes, so it works whatever the modules are called.
The conversations are small and the offline stand-in's, not a language model's; calls of a language model are replayed
from a recording (`tests/record_calls.py`). `--keep FOLDER` keeps what was compared, for `diff -r`.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
import yaml
from tqdm import tqdm

from normal import LEFT_OUT, Normaliser, as_json, shape, short
from product import DIALOGUES, GENERATED, ROOT, CommandFailed, Product

DOMAINS = {"general": "Career and Professional Development", "coding": "Coding", "math": "Math"}
SIZES = ("100K", "500K", "1M", "10M")
SMALL = ("subplans=[2,2,2]", "bullets_per_subplan=[20,23,25]", "batches_per_subplan=[5,5,5]")
"""What makes a 10M conversation of two sub-plans a plan: its ten plans and their people are what it is made for."""
PROTOCOLS = ("paper", "released-code", "f1-weighted", "nugget-mean", "binary")
ORDERS = ("dialogue-mean", "position-mean", "rule-mean")
COMMANDS = (
    "data check", "data audit", "data errata", "data download", "evidence", "score", "tables", "claims", "preflight",
    "estimate", "calls export", "calls import", "calls verify", "generate", "titles", "run-all", "memorycode score",
    "memorycode generate", "memorycode run",
)  # fmt: skip

DATA = frozenset({".csv", ".json", ".toml", ".safetensors", ".mplstyle", ".j2", ".yaml"})
"""Endings of what the packages carry as data; it is known by its name, wherever it lies."""

GROUPS = ("run", "generated", "recorded", "options", "files")
"""In the order in which they are begun: the longest first."""

Thing = tuple[str, bytes]
"""The name of something that must not change, and what it is."""
Measured = dict[str, dict[str, str]]
"""Digests by name, by group."""


class Digests:
    """The things, group by group; each method yields those of one."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.normal = Normaliser({str(product.work): "WORK", str(ROOT): "ROOT", product.name: "RUN"})

    def said(self, name: str, *words: str | Path, codes: tuple[int, ...] = (0,)) -> Thing:
        """What a command prints."""
        return name, self.normal.text(self.product.call(*words, codes=codes)).encode()

    def below(self, group: str, folder: Path, pattern: str = "*", without: str = r"\.sqlite$") -> Iterator[Thing]:
        """The files below a folder that match."""
        for path in sorted(folder.rglob(pattern)):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and not re.search(without, name):
                yield f"{group}/{name}", self.normal.file(path)

    def files(self) -> Iterator[Thing]:
        """Prompts, parameters as they come to be, and what is carried as data, wherever it lies."""
        yield from self.below("prompts", ROOT / "prompts", "*.md")
        for size in SIZES:
            values: dict[str, object] = {}
            for path in (ROOT / "params" / "base.yaml", ROOT / "params" / f"{size.lower()}.yaml"):
                held = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
                values |= {**held.pop("settings", {}), **held}
            yield from ((f"params/{size}/{name}", as_json(value).encode()) for name, value in values.items())
        for path in sorted(path for top in ("beamlib", "packages") for path in (ROOT / top).rglob("*.*")):
            if path.is_file() and path.suffix in DATA:
                yield f"data/{path.name}", path.read_bytes()

    def options(self) -> Iterator[Thing]:
        """The options of every command."""
        for command in COMMANDS:
            found = re.findall(r"(?<![\w-])--[a-z][a-z-]*", self.product.call(*command.split(), "--help"))
            yield f"options/{command}", "\n".join(sorted(set(found))).encode()

    def generated(self) -> Iterator[Thing]:
        """Conversations of three styles and two sizes; a stage that gives up ends one, and that is compared as well."""
        for style, domain in DOMAINS.items():
            for size in ("100k", "10m"):
                folder = self.product.work / f"{style}-{size}"
                words = ["--size", size, "--domain", domain, "--seed", "7", "--workers", "1", "--out", folder]
                if size == "10m":
                    words += ["--strategy", "sequential" if style == "coding" else "hierarchical"]
                    words += [word for one in (*SMALL, "questions_per_batch=[4,4,4]") for word in ("--set", one)]
                yield self.said(f"generated/{folder.name}/said", "generate", *words, codes=(0, 2))
                yield from self.below(f"generated/{folder.name}", folder)
        hundred = self.product.work / "coding-100k"
        yield self.said("data-check", "data", "check", hundred, "--json")
        yield self.said("data-audit", "data", "audit", hundred, "--json")
        yield self.said("evidence", "evidence", "--data", hundred, "--k", "5,20", "--json")
        models = ROOT / "params" / "models.yaml"
        estimate = ("estimate", ROOT / "params" / "100k.yaml", "--data", hundred, "--models", models, "--json")
        yield self.said("estimate", *estimate)

    def run(self) -> Iterator[Thing]:
        """The default run on two conversations: all arms, notebooks and MemoryCode, and what is read off it."""
        run = self.product.run
        words = ("--sizes", "100k", "--conversations", "2", "--name", self.product.name, "--set", "workers=1")
        self.product.call("run-all", *words)
        yield "layout/run", "\n".join(sorted(p.relative_to(run).as_posix() for p in run.rglob("*"))).encode()
        yield from self.below("run", run, without=r"\.(sqlite|pdf|png)$|^notebooks/.*\.html$|^index\.html$|^readings/")
        yield from self.shapes(run)
        for protocol in PROTOCOLS:
            yield self.said(f"scores/{protocol}", "score", run, "--protocol", protocol, "--json")
        yield self.said("scores/tables", "tables", run, "--json")
        for claim in json.loads(self.product.call("claims", "--json")):
            yield f"claims/{claim['id']}", as_json(claim).encode()
        for order in ORDERS:
            words = ("--dialogues", run / "memorycode" / "data", "--outputs", run / "memorycode" / "outputs")
            yield self.said(f"scores/memorycode/{order}", "memorycode", "score", *words, "--order", order, "--json")

    def shapes(self, run: Path) -> Iterator[Thing]:
        """The fields of each kind of record that the run has written, and their types."""
        kinds = ("answers.jsonl", "judgements.jsonl", "manifest.json", "parameters.json", "run.json", "generation.json")
        for kind in kinds:
            texts = (path.read_text(encoding="utf-8") for path in sorted(run.rglob(kind)))
            values = (json.loads(one) for text in texts for one in (text.splitlines() if "jsonl" in kind else [text]))
            yield f"records/{kind}", shape(values).encode()

    def recorded(self) -> Iterator[Thing]:
        """What is made of recorded calls alone, with the calls that are held: one that is missing ends everything."""
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


def _calls(path: Path, name: str) -> Iterator[Thing]:
    """The keys of a store by step, and what the store's tables are."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as held:
        steps: dict[str, list[str]] = {}
        for step, key in held.execute("SELECT step, key FROM calls ORDER BY step, key"):
            steps.setdefault(step, []).append(key)
        tables = held.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
    for step, keys in steps.items():
        yield f"keys/{name}/{step}", "\n".join(keys).encode()
    yield f"records/{name}", "\n".join(sql for (sql,) in tables).encode()


def _by_name(things: Iterable[Thing]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name, data in things:
        if name in found:
            raise CommandFailed(f"{name}: two things have this name, so one of them would be compared with the other.")
        found[name] = data
    return found


def measure(groups: Iterable[str], keep: Path | None) -> Measured:
    """The digests of the named groups; with `keep` what they are of goes there."""
    with TemporaryDirectory(prefix="digests-") as folder:
        product = Product(Path(folder).resolve(), f"digests-{uuid.uuid4().hex[:8]}")
        digests = Digests(product)
        try:
            with ThreadPoolExecutor(2) as pool:
                work = {pool.submit(lambda name: _by_name(getattr(digests, name)()), name): name for name in groups}
                done = tqdm(as_completed(work), desc="digests", unit="group", total=len(work))
                things = {work[one]: one.result() for one in done}
        finally:
            product.clear()
    for one in things.values() if keep else ():
        for name, data in one.items():
            place = Path(keep or "") / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
    return {group: {name: short(data) for name, data in sorted(one.items())} for group, one in sorted(things.items())}


def differences(before: Measured, after: Measured) -> Iterator[str]:
    """A line for each thing that is another one, gone or new, of the groups that both have."""
    for group in before.keys() & after.keys():
        old, new = before[group], after[group]
        yield from (f"gone     {name}" for name in old if name not in new)
        yield from (f"new      {name}" for name in new if name not in old)
        yield from (f"differs  {name}" for name in old if old[name] != new.get(name, old[name]))


def read(path: Path) -> Measured:
    """The digests in a file that `--out` wrote."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["groups"])
    except (OSError, ValueError, KeyError, TypeError):
        raise CommandFailed(f"{path}: holds no digests; make it with --out.") from None


def main(
    measured: Annotated[Path | None, typer.Argument(help="Take these digests; by default they are made now.")] = None,
    against: Annotated[Path | None, typer.Option(help="Name what differs from these; exit code 1 if anything.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the digests here.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Write there what the digests are of, for diff -r.")] = None,
    only: Annotated[str, typer.Option(help=f"Groups, separated by commas, of {', '.join(GROUPS)}.")] = "",
) -> None:
    """Digests of what must not change: of files, options, generated data, a default run, and replayed calls."""
    groups = tuple(name for name in only.split(",") if name) or GROUPS
    if unknown := set(groups) - set(GROUPS):
        raise CommandFailed(f"--only: there is no group {min(unknown)!r}; choose of {', '.join(GROUPS)}.")
    if (ROOT / "data" / "memorycode").exists():
        raise CommandFailed("data/memorycode: the default run would take these dialogues; move them away meanwhile.")
    before = read(against) if against else {}
    made = read(measured) if measured else measure(groups, keep)
    count = sum(map(len, made.values()))
    text = json.dumps({"left_out": LEFT_OUT, "groups": made}, indent=1)
    if out:
        out.write_text(text + "\n", encoding="utf-8")
    if against:
        found = sorted(differences(before, made))
        print("\n".join([*found, f"{count} digests, {len(found)} differences"]))
        raise typer.Exit(bool(found))
    print(f"wrote {out}: {count} digests" if out else text)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    try:
        app()
    except CommandFailed as error:
        print(f"benchmarks/digests.py: {error}", file=sys.stderr)
        raise SystemExit(2) from None
