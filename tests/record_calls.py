"""Records the calls that `benchmarks/digests.py` replays: `python tests/record_calls.py`, some minutes.

To be run again where prompts, requests or the order of generation change on purpose; code that only moves has to replay
what is there. A request that is recorded already gets its reply again, so that only what rests on the change is new;
delete the archive to record everything anew. A real server answers the rest: the offline author for generation (its
answers cut short, to keep the file small), rules for all else. All of it is small: one conversation, few arms, three
dialogues.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scripted_server import ScriptedServer, body_text
from served_author import ServedAuthor, models_file, recognise
from steady_replies import steady_reply

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "packages"), str(ROOT / "benchmarks")]

from beam_generate.pipeline import ConversationSpec  # noqa: E402
from beamlib.llm.call_store import CallStore, call_key  # noqa: E402
from beamlib.params import usual_parameters  # noqa: E402
from digests import ASK, DIALOGUES, GENERATE, GENERATED, MODELS, RECORDED, RUN, TALK, Product  # noqa: E402

PORT = 47_115
"""The address is part of what a call is found by, so it is the same in every recording."""
FEW = (
    "budgets=[5]",
    "retrievers=[hybrid]",
    "judge_repeats=2",
    "scratchpad_threshold=1000",
    "scratchpad_target=500",
    "workers=1",
)
"""Few arms; every verdict twice, and a scratchpad that has to be compressed."""


class Server:
    """Replies to every prompt of the product: as in `recorded`, by call key, else by its text."""

    def __init__(self, recorded: Mapping[str, str]) -> None:
        self.recorded = recorded
        spec = ConversationSpec(usual_parameters("100K", generation_seed=7, domain="coding"))
        self.author = ServedAuthor(spec.story())

    def __call__(self, body: dict[str, Any]) -> Any:
        key = call_key(body, f"http://127.0.0.1:{PORT}/v1", body["seed"])  # each repeat has a seed of its own
        if key in self.recorded:
            return self.recorded[key]
        text = body_text(body)
        if agenda := re.search(r"Write a \w+ conversation between (\w+) and (\w+)\.", text):
            return _talk(text[agenda.start() :], *agenda.groups())
        if asked := re.search(r"Write a (.+)\. Leave out", text):
            return f"```python\ndef answer_{len(text)}():\n    return {asked[1]!r}\n```"
        try:
            prompt, _ = recognise(text)
        except ValueError:
            return steady_reply(body)
        reply = self.author(body)
        return (
            reply[:200].rpartition(" ")[0] + "."
            if prompt.id == "assistant_answer" and isinstance(reply, str)
            else reply
        )


def _talk(agenda: str, mentor: str, mentee: str) -> str:
    """A conversation in which everything on the agenda is said."""
    return f"{mentor}: {' '.join(agenda.split())}\n\n{mentee}: Understood, thank you."


def recorded_replies() -> dict[str, str]:
    """Read the replies of the last recording, by call key."""
    if not RECORDED.exists():
        return {}
    replies: dict[str, str] = {}
    with TemporaryDirectory() as folder, tarfile.open(RECORDED) as held:
        work = Path(folder)
        held.extractall(work, filter="data")
        product = Product(work, "recording")
        product.clear()
        product.call("calls", "import", work / RUN, product.run)
        for path in [*work.rglob("*.sqlite"), *product.run.rglob("*.sqlite")]:
            with CallStore(path, read_only=True) as store:
                replies |= {call.key: call.text for call in store.calls() if call.text is not None}
        product.clear()
    return replies


def main() -> None:
    """Record everything, then pack it."""
    recorded = recorded_replies()
    with TemporaryDirectory() as folder, ScriptedServer(Server(recorded), port=PORT) as server:
        work = Path(folder)
        product = Product(work, "recording")
        product.clear()
        models = models_file(work / MODELS, server.base_url, timeout=300.0, patience=300.0)
        asked = ("--models", models, "--yes")
        print(product.call(*GENERATE, *asked, "--out", work / GENERATED))
        print(product.call(*TALK, *asked, "--out", work / DIALOGUES))
        few = [word for one in FEW for word in ("--set", one)]
        run = ("run-all", "--data", work / GENERATED, "--name", product.name, "--no-admission", *few)
        print(product.call(*run, *asked))
        print(product.call(*ASK, *asked, "--data", work / DIALOGUES, "--name", product.name))
        print(product.call("calls", "export", product.run, work / RUN))
        stores = sorted(path for place in (GENERATED, DIALOGUES) for path in (work / place).rglob("*.sqlite"))
        with tarfile.open(RECORDED, "w:xz", preset=9) as held:
            for path in (models, work / RUN, *stores):
                held.add(path, path.relative_to(work))
        product.clear()
    made = RECORDED.with_name("recorded_calls.json")
    subprocess.run([sys.executable, ROOT / "benchmarks/digests.py", "--only", "recorded", "--out", made], check=True)
    print(f"wrote {RECORDED}: {RECORDED.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
