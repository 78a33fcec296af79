"""New titles from a model (section 2.2.1, Listing 22), in a file that people refine and `generate --titles` takes.

In the paper GPT-4.1 proposes titles, themes and subtopics for a domain, and people choose and correct them. The file is
for that: a JSON list of objects with category, title, theme and subtopics, to be edited at will.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from beam_generate.casting import GenerationConfig, open_roles
from beam_generate.folder import write_ordered
from beam_generate.reply_json import objects
from beam_generate.seeds import parse_domain, read_seed, titles
from beam_generate.shapes import Repairs
from beamlib.confirmation import Quote, confirm_calls
from beamlib.data.conversations import Seed
from beamlib.data.sources import refuse_data
from beamlib.errors import UserError
from beamlib.files import read_json
from beamlib.llm.client import EndpointModel
from beamlib.llm.keys import refuse_keys
from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt, run
from beamlib.llm.prompts import check_overrides
from beamlib.llm.retrying import Found, ask
from beamlib.text import count_tokens, shell_command

_SUFFIX = ".calls.sqlite"
_TOKENS_PER_TITLE = 150  # with theme and subtopics, about


async def new_topic(model: Model, domain: str, count: int, used: list[str], repairs: Repairs) -> list[Seed]:
    """Up to `count` new topics of a domain by Listing 22, none of them titled as in `used`.

    Entries without title, theme or subtopics and repeated titles are dropped and noted. Where fewer than `count` are
    left the model is asked once more; what is then missing is noted. None at all is a `ModelError`.
    """
    category = parse_domain(domain)
    prompt = Prompt("titles", {"domain": category, "count": str(count), "used": "\n".join(used)}, f"titles, {category}")
    found: list[Seed] = []
    known = {name.casefold() for name in used}

    def read(reply: Completion, _: int) -> Found[list[Seed]]:
        for entry in objects(reply.text) or []:
            seed = read_seed(entry, category)
            if seed is None or not (seed.theme and seed.subtopics) or seed.title.casefold() in known:
                repairs.note("titles", category, f"{json.dumps(entry, default=str):.120}", "dropped")
                continue
            known.add(seed.title.casefold())
            found.append(seed)
        complaint = f"{len(found)} of {count} topics could be used; every one needs a new title, a theme, subtopics."
        return found, complaint if len(found) < count else None

    await ask(model, prompt, read)
    if not found:
        raise ModelError(f"{model.name} named no usable topic for {category}", Outcome.UNREADABLE)
    if len(found) < count:
        repairs.note("titles", category, f"{len(found)} of {count} topics", "accepted")
    return found[:count]


def read_titles(path: Path) -> list[Seed]:
    """The topics of a titles file, in order; what is wrong is a `UserError` that names the entry."""
    value = read_json(path)
    if not isinstance(value, list) or not value:
        raise UserError(f"{path}: must be a list of objects with category, title, theme and subtopics; correct it.")
    found = []
    for number, entry in enumerate(value, start=1):
        category = entry.get("category") if isinstance(entry, dict) else None
        seed = read_seed(entry, str(category)) if isinstance(category, str) else None
        if seed is None:
            raise UserError(f"{path}: entry {number} lacks a category or a title; add it.")
        try:
            found.append(replace(seed, category=parse_domain(seed.category)))
        except UserError as error:
            raise UserError(f"{path}: entry {number}: {error}") from None
    return found


def ask_titles(path: Path, domain: str, count: int, writing: GenerationConfig) -> str:
    """Add up to `count` new titles of a domain to the file at `path`; what was done, in a sentence.

    Titles of Table 5 and of the file are told to the model as used. What it would cost is printed first; nothing is
    called before there is a yes.
    """
    category = parse_domain(domain)
    refuse_data(path.parent)
    held = read_titles(path) if path.exists() else []
    if writing.prompts:
        check_overrides(Path(writing.prompts))
    endpoint = writing.endpoint("titler")
    used = [*titles()[category], *(seed.title for seed in held if seed.category == category)]
    if writing.calls != "replay":
        asked, written = 450 + count_tokens("\n".join(used)), _TOKENS_PER_TITLE * count
        dollars = (asked * endpoint.input_price + written * endpoint.output_price) / 1_000_000
        text = (
            f"titler {endpoint.model}: one call, two where too few titles can be used; each about {asked:,d} tokens in "
            f"and {written:,d} out, {dollars:,.2f} US dollars"
        )
        ready = EndpointModel("titler", endpoint).ready
        writing = replace(writing, confirmed=confirm_calls({"": Quote(1, dollars, text)}, ready, writing.confirmed))
    repairs = Repairs()
    options = {"titles": path, "--domain": category, "--count": count, "--models": writing.models}
    writing = replace(writing, command=shell_command("beamlib", options, end=["--yes"]))
    with open_roles(writing, ["titler"], "titles", path.with_suffix(_SUFFIX)) as model:
        try:
            found = run(new_topic(model, category, count, used, repairs))
        except ModelError as error:
            raise UserError(f"{path}: no title was added: {error.reason}.") from None
    write_ordered(path, [asdict(seed) for seed in [*held, *found]])
    refuse_keys([path, path.with_suffix(_SUFFIX)], [endpoint.key_variable])
    return (
        f"{path}: {len(found)} title(s) of {category} added, {len(repairs.entries)} repair(s); refine them, then "
        f"beamlib generate --titles {path}"
    )
