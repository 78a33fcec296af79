"""Ask a model for new titles (section 2.2.1, Listing 22), and read the file that `generate --titles` takes.

In the paper GPT-4.1 proposes titles, themes and subtopics for a domain, and people choose and correct them. The file is
made for that: a JSON list of objects with category, title, theme and subtopics.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from beam_commands.confirmation import Quote, confirm_calls, cost_in_words
from beam_generate.authors import GenerationConfig, open_roles
from beam_generate.folder import validate, write_ordered
from beam_generate.replies import read_objects, read_seed
from beam_generate.seeds import parse_domain, titles
from beam_generate.shapes import Repairs
from beamlib.data.conversations import Seed
from beamlib.errors import UserError
from beamlib.files import read_json
from beamlib.llm.client import EndpointModel
from beamlib.llm.keys import refuse_keys
from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt, run
from beamlib.llm.retrying import ReadReply, ask
from beamlib.places import refuse_data
from beamlib.text import count_tokens, shell_command

_SUFFIX = ".calls.sqlite"
_TOKENS_PER_TITLE = 150  # with theme and subtopics, about


async def new_topics(model: Model, domain: str, count: int, used: list[str], repairs: Repairs) -> list[Seed]:
    """Ask for up to `count` topics of a domain with titles other than `used`; one retry if there are fewer.

    Raises:
        ModelError: No topic is usable.
    """
    category = parse_domain(domain)
    prompt = Prompt("titles", {"domain": category, "count": str(count), "used": "\n".join(used)}, f"titles, {category}")
    topics: list[Seed] = []
    known = {name.casefold() for name in used}

    def read(reply: Completion, _: int) -> ReadReply[None]:
        for entry in read_objects(reply.text, prompt.id):
            seed = read_seed(entry, category)
            if seed is None or seed.title.casefold() in known:
                repairs.note("titles", category, f"{json.dumps(entry, default=str):.120}", "dropped")
            else:
                known.add(seed.title.casefold())
                topics.append(seed)
        complaint = f"{len(topics)} of {count} topics could be used; every one needs a new title, a theme, subtopics."
        return None, complaint if len(topics) < count else None

    await ask(model, prompt, read)
    if not topics:
        raise ModelError(f"{model.name} named no usable topic for {category}", Outcome.UNREADABLE)
    return topics[:count]


def read_titles(path: Path) -> list[Seed]:
    """Read the topics of a titles file, in order; a `UserError` names a wrong entry."""
    value = read_json(path)
    if not isinstance(value, list) or not value:
        raise UserError(f"{path}: must be a list of objects with category, title, theme and subtopics; correct it.")
    topics = []
    for number, row in enumerate(value, start=1):
        entry = validate(Seed, row, f"{path}: entry {number}")
        try:
            topics.append(replace(entry, category=parse_domain(entry.category)))
        except UserError as error:
            raise UserError(f"{path}: entry {number}: {error}") from None
    return topics


def ask_titles(path: Path, domain: str, count: int, config: GenerationConfig, models: Path) -> str:
    """Add up to `count` new titles of a domain to a titles file, after the user has confirmed the cost.

    The model is shown the titles of Table 5 and of the file as used. Returns a sentence for the user. `models` is the
    path of the models file, for the command that is repeated.
    """
    category = parse_domain(domain)
    refuse_data(path.parent)
    existing = read_titles(path) if path.exists() else []
    endpoint = config.endpoint("titler")
    used = [*titles()[category], *(seed.title for seed in existing if seed.category == category)]
    if config.calls != "replay":
        tokens, written = 450 + count_tokens("\n".join(used)), _TOKENS_PER_TITLE * count
        dollars = endpoint.dollars(tokens, 0, written)
        unpriced = (endpoint.model,) if dollars is None else ()
        text = (
            f"titler {endpoint.model}: one call, two where too few titles can be used; each about {tokens:,d} tokens "
            f"in and {written:,d} out, {cost_in_words(dollars or 0.0, unpriced)}"
        )
        ready = EndpointModel("titler", endpoint).check_key
        quote = Quote(1, dollars or 0.0, text, unpriced)
        config = replace(config, confirmed=confirm_calls({"": quote}, ready, config.confirmed))
    repairs = Repairs()
    options = {"titles": path, "--domain": category, "--count": count, "--models": models}
    config = replace(config, command=shell_command("beamlib", options, end=["--yes"]))
    with open_roles(config, ["titler"], "titles", path.with_suffix(_SUFFIX)) as model:
        try:
            topics = run(new_topics(model, category, count, used, repairs))
        except ModelError as error:
            raise UserError(f"{path}: no title was added: {error.reason}.") from None
    write_ordered(path, [asdict(seed) for seed in [*existing, *topics]])
    refuse_keys([path, path.with_suffix(_SUFFIX)], [endpoint.key_variable])
    return (
        f"{path}: {len(topics)} title(s) of {category} added, {len(repairs.entries)} repair(s); refine them, then "
        f"beamlib generate --titles {path}"
    )
