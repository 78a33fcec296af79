"""`beamlib meme generate`: episodes drawn, told and put between fillers, in the released layout.

`<out>/<variant>.json` (a list of episodes), `<out>/generation.json` (the order, who wrote it, each file's SHA-256), and
with models `<out>/calls/<episode>.sqlite`. All variants of a seed tell the same: an episode is the same whether others
are made or not. A run that is killed goes on where it was: a file that is on record is not written again, and no call
is paid for twice.
"""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

from tqdm import tqdm

from beam_commands.admission import Candidates, admit_endpoints, quote_with_admission
from beam_commands.confirmation import Quote, confirm_calls, cost_in_words
from beam_meme.auditing import AUDIT_PROMPTS, AuditedEpisode, audit_prompts, tell_audited
from beam_meme.drawing import Drawn, draw_all
from beam_meme.episode_files import write_episodes
from beam_meme.episodes import DOMAINS, VARIANTS, Domain, Variant
from beam_meme.fillers import (
    CONFLICT,
    CONFLICTS,
    GAP_TOKENS,
    Checked,
    by_model,
    haystack,
    pool_of,
    read_fillers,
    verdict_prompts,
)
from beam_meme.telling import ASSISTANT, USER, prompts_of, tell_sessions
from beamlib.data.generation_record import GenerationRecord
from beamlib.errors import UserError
from beamlib.files import code_hash, sha256, to_json
from beamlib.llm.admission import admission_calls, learnt_marks
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint, ModelsFile, load_models
from beamlib.llm.model import OFFLINE_NAME, Model, ModelError, Prompt, run
from beamlib.llm.prompts import Prompts, render
from beamlib.llm.retrying import RetryingModel
from beamlib.llm.spending import guard_run
from beamlib.llm.stored_model import CallStore, Mode, StoredModel
from beamlib.places import refuse_data
from beamlib.text import shell_command

_Value = TypeVar("_Value")
CALLS = "calls"
FillerJudge = Literal["rules", "model"]
_RULES = tuple(f"beam_meme.{name}" for name in ("banks", "domains", "drawing", "fillers", "telling", "episode_files"))
_FILLER_RULES = ("beam_meme.banks", "beam_meme.domains", "beam_meme.fillers")
_AUTHOR_RULES = ("beam_generate", "beam_offline.author", "beam_offline.author.banks")
_TOGETHER = 8  # episodes that are waited for at a time; the endpoint's own lanes bound its calls
_CHARACTERS_PER_TOKEN, _REPLY = 4.2, 50  # tokens of a reply, about
_MOST_EPISODES = 1_000


@dataclass(frozen=True, slots=True)
class EpisodeOptions:
    """What is to be generated: `count` episodes, half of each domain, in each of `variants`.

    Without `models` (a models file, role `speaker`) the sessions are told by rules. A models file with an `auditor` has
    them audited (`beam_meme.auditing`). `fillers` is a folder of sessions;
    without it the offline author writes them. `filler_judge` "model" has the role `detector` look at them after the
    rules. `calls` and `yes` are as in `beamlib generate`: nothing is called before `yes`. With `admission` the models
    answer known questions first.
    """

    out: Path
    count: int = 10
    variants: Sequence[Variant | str] = ("filler32k",)
    seed: int = 42
    models: Path | None = None
    fillers: Path | None = None
    filler_judge: FillerJudge | str = "rules"
    calls: Mode | str = "record"
    prompts: Path | None = None
    yes: bool = False
    admission: bool = False


def generate_episodes(order: EpisodeOptions) -> Path:
    """Write what was ordered and is not there, and say so; the folder.

    A `UserError` where an option is wrong, the folder holds other data, or a model cannot be called.
    """
    models, prompts = _check(order)
    endpoints = _endpoints(order, models)
    refuse_data(order.out)
    drawn = draw_all(order.count, order.seed)
    basis = {
        "seed": order.seed,
        "count": order.count,
        "filler_judge": order.filler_judge,
        **_made_by(order, endpoints, prompts),
    }
    record = GenerationRecord.open(order.out, "variants", "variant", basis)
    places = {name: order.out / f"{name}.json" for name in VARIANTS if name in order.variants}
    pending = [name for name, path in places.items() if not record.holds(name, path)]
    if not pending:
        print(f"{order.out}: everything was there before")
        return order.out
    started = time.monotonic()
    needed = any(GAP_TOKENS[name] for name in pending)
    pools = {domain: pool_of(domain, order.seed, order.fillers) if needed else Checked((), ()) for domain in DOMAINS}
    candidates = None
    if endpoints and order.calls != "replay":
        asked = _asked(order, endpoints, drawn, pools)
        quote = _estimate(asked, endpoints, prompts, len(drawn))
        if order.admission:
            longest = {
                role: int(max((_tokens(prompt, prompts) for prompt in own), default=0)) for role, own in asked.items()
            }
            candidates = Candidates(
                endpoints, longest, order.out, order.out / CALLS, prompts, cast(Mode, order.calls), _command(order)
            )
            quote = quote_with_admission(quote, candidates)
        order = replace(order, yes=confirm_calls({"": quote}, lambda: _ready(endpoints), order.yes))
    print(f"author: {', '.join(dict.fromkeys(one.model for one in endpoints.values())) or OFFLINE_NAME}")
    record.write()
    with guard_run(order.out, models, calls=order.calls):
        writer = _Writer(order, admit_endpoints(candidates) if candidates else endpoints, prompts)
        told = writer.tell_all(drawn)
        quality = _quality(drawn, told) if "auditor" in endpoints else {}
        kept = [(plan, one) for plan, one in zip(drawn, told, strict=True) if not one.given_up]
        pools = {domain: writer.judged(domain, pool) for domain, pool in pools.items()}
        if quality:
            print(_quality_line(quality))
        if not kept:
            raise UserError(f"{order.out}: no episode passed the audit, so nothing is written; name other models.")
        for variant in pending:
            row = _write(order, kept, pools, variant)
            record.add(variant, places[variant], {"variant": variant, **row, **quality})
    print(f"{order.out}: {len(kept)} episodes each of {', '.join(pending)}, in {time.monotonic() - started:.0f} s")
    return order.out


def _asked(
    order: EpisodeOptions,
    endpoints: Mapping[str, Endpoint],
    drawn: Sequence[Drawn],
    pools: Mapping[Domain, Checked],
) -> dict[str, list[Prompt]]:
    """Return what models would be asked, by role."""
    asked: dict[str, list[Prompt]] = {role: [] for role in endpoints}
    for plan in drawn:
        for role, own in (audit_prompts(plan) if "auditor" in endpoints else {"speaker": prompts_of(plan)}).items():
            asked[role] += own
    if order.filler_judge == "model":
        asked["detector"] += [one for domain in DOMAINS for one in verdict_prompts(pools[domain].free, domain)]
    return asked


def _estimate(
    asked: Mapping[str, Sequence[Prompt]], endpoints: Mapping[str, Endpoint], prompts: Prompts, episodes: int
) -> Quote:
    """Say what models would be asked and cost; what is stored already is counted as well."""
    calls = {role: len(own) for role, own in asked.items()}
    given = {role: sum(_tokens(prompt, prompts) for prompt in own) for role, own in asked.items()}
    replies = {role: sum(AUDIT_PROMPTS.get(prompt.id, _REPLY) for prompt in own) for role, own in asked.items()}
    costs = {role: endpoints[role].dollars(given[role], 0, replies[role]) for role in asked}
    dollars = sum(cost or 0.0 for cost in costs.values())
    unpriced = tuple(endpoints[role].model for role, cost in costs.items() if cost is None)
    parts = [
        f"{role} {endpoints[role].model}: about {calls[role]:,d} calls, {given[role]:,.0f} input tokens"
        for role in asked
    ]
    cost = cost_in_words(dollars, unpriced)
    text = (
        f"{'; '.join(parts)}; together {cost} for {episodes:,d} episodes; replies asked for again come on top, and "
        "those that are stored from an earlier run are counted as well though not paid again."
    )
    return Quote(sum(calls.values()), dollars, text, unpriced)


def _tokens(prompt: Prompt, prompts: Prompts) -> float:
    messages = render(prompt.id, prompt.variables, prompts)
    return sum(len(message["content"]) for message in messages) / _CHARACTERS_PER_TOKEN


def _check(order: EpisodeOptions) -> tuple[ModelsFile | None, Prompts]:
    """Read the models file, None for the rules, and the prompts; a mistake in the order is a `UserError`."""
    for option, value, known in (
        *(("variant", one, VARIANTS) for one in order.variants),
        ("--calls", order.calls, get_args(Mode)),
        ("--filler-judge", order.filler_judge, get_args(FillerJudge)),
    ):
        if value not in known:
            raise UserError(f"{option}: {value!r:.80} does not exist; choose one of {', '.join(known)}.")
    if not order.variants or not 1 <= order.count <= _MOST_EPISODES:
        raise UserError(f"episodes: {order.count}; ask for 1 to {_MOST_EPISODES:,} episodes of at least one variant.")
    if order.models is None:
        for option, given in (
            ("--prompts", order.prompts is not None),
            ("--calls", order.calls != "record"),
            ("--filler-judge", order.filler_judge != "rules"),
        ):
            if given:
                raise UserError(f"{option}: the rules ask no model; name a models file by --models as well.")
        return None, Prompts.read()
    return load_models(order.models), Prompts.read(order.prompts)


def _endpoints(order: EpisodeOptions, file: ModelsFile | None) -> dict[str, Endpoint]:
    """The endpoints by role, none for the rules."""
    if file is None:
        return {}
    endpoints = {"speaker": file.author("speaker")}
    if file.auditor or order.filler_judge == "model":
        endpoints["detector"] = file.author("detector")
    return endpoints | ({"auditor": file.auditor} if file.auditor else {})


def _ready(endpoints: Mapping[str, Endpoint]) -> None:
    for role, endpoint in endpoints.items():
        EndpointModel(role, endpoint).check_key()


def _made_by(order: EpisodeOptions, endpoints: Mapping[str, Endpoint], prompts: Prompts) -> dict[str, Any]:
    """What the episodes rest on beside the order."""
    made: dict[str, Any] = {
        "author": OFFLINE_NAME,
        "rules": code_hash(_RULES),
        "filler_rules": code_hash(_FILLER_RULES),
    }
    if order.fillers is None:
        made["fillers"] = {"author": OFFLINE_NAME, "rules": code_hash(_AUTHOR_RULES)}
    else:
        texts = [[domain, one.name, one.text] for domain in DOMAINS for one in read_fillers(order.fillers, domain)]
        made["fillers"] = {"folder": sha256(to_json(texts))}
    if endpoints:
        made["author"] = {role: endpoint.settings for role, endpoint in endpoints.items()}
        names = [USER, ASSISTANT, *([CONFLICT] if order.filler_judge == "model" else [])]
        if "auditor" in endpoints:
            names += AUDIT_PROMPTS
            made["audit_rules"] = code_hash(("beam_meme.auditing",))
        made["prompts"] = prompts.hashes(names)
    return made


@dataclass(frozen=True)
class _Writer:
    """Who tells the episodes and judges the fillers."""

    order: EpisodeOptions
    endpoints: Mapping[str, Endpoint]
    prompts: Prompts
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def tell_all(self, drawn: Sequence[Drawn]) -> list[AuditedEpisode]:
        """The sessions of every episode, in order; the first `ModelError` is a `UserError`."""
        # The rules are bound by the processor; with an endpoint one mostly waits.
        pool = ThreadPoolExecutor(_TOGETHER if self.endpoints else 1)
        try:
            told = pool.map(self._tell, drawn)
            return list(tqdm(told, desc="episodes told", total=len(drawn), disable=None, leave=False, delay=2))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # who interrupts need not wait for episodes to be finished

    def _tell(self, drawn: Drawn) -> AuditedEpisode:
        if not self.endpoints:
            return AuditedEpisode(run(tell_sessions(drawn)))
        with self._models(drawn.id) as models:
            if "auditor" in models:
                return self._waited(tell_audited(drawn, models))
            return AuditedEpisode(self._waited(tell_sessions(drawn, models["speaker"])))

    def judged(self, domain: Domain, pool: Checked) -> Checked:
        """Those of `pool` that the detector, where there is one, finds neutral too."""
        if self.order.filler_judge != "model" or not pool.free:
            return pool
        with self._models(f"fillers_{domain}") as models:
            found = self._waited(by_model(pool.free, domain, models["detector"]))
        print(f"fillers, {domain}: {', '.join(f'{count} {name}' for name, count in _counted(found).items())}")
        return replace(found, removed=(*pool.removed, *found.removed))

    def _waited(self, work: Coroutine[Any, Any, _Value]) -> _Value:
        try:
            return run(work)
        except ModelError as error:
            raise UserError(f"generation stopped: {error.reason}; what arrived is stored: run again.") from None

    @contextmanager
    def _models(self, what: str) -> Iterator[dict[str, Model]]:
        """Open the models of all roles; their calls go through a store of its own for each `what`."""
        mode, order = cast(Mode, self.order.calls), self.order
        known = admission_calls(order.out)
        with CallStore(order.out / CALLS / f"{what}.sqlite", read_only=mode == "replay", run_id=self.run_id) as store:
            yield {
                role: RetryingModel(
                    StoredModel(
                        EndpointModel(role, endpoint, prompts=self.prompts),
                        store,
                        mode,
                        role=role,
                        conversation=what,
                        command=_command(order),
                        confirmed=order.yes,
                    ),
                    learnt_marks(known, endpoint),
                )
                for role, endpoint in self.endpoints.items()
            }


def _quality(drawn: Sequence[Drawn], told: Sequence[AuditedEpisode]) -> dict[str, Any]:
    """What the record says of the audit: counts by check, of all episodes and of each, and the episodes given up."""
    episodes = {plan.id: one for plan, one in zip(drawn, told, strict=True)}
    counts = sum((Counter(one.rejections) for one in told), Counter[str]())
    return {
        "rejections": dict(sorted(counts.items())),
        "rejections_by_episode": {name: one.rejections for name, one in episodes.items() if one.rejections},
        "facts_in_first_person": sum(one.first_person for one in told),
        "given_up": {name: one.given_up for name, one in episodes.items() if one.given_up},
    }


def _quality_line(quality: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{count} {check}" for check, count in quality["rejections"].items()) or "none"
    given_up = "".join(f"\n{name} is left out, {reason}" for name, reason in quality["given_up"].items())
    return f"audit: rejections by check: {counts}; {len(quality['given_up'])} episodes given up{given_up}"


def _write(
    order: EpisodeOptions,
    told: Sequence[tuple[Drawn, AuditedEpisode]],
    pools: Mapping[Domain, Checked],
    variant: Variant,
) -> dict[str, Any]:
    """Put the episodes of a variant together and write them; what the record says of it."""
    bar = tqdm(told, desc=variant, disable=None, leave=False, delay=2)
    episodes = [
        haystack(
            one,
            audited.sessions,
            pools[one.domain].free,
            variant,
            random.Random(f"meme {order.seed} {variant} {one.id}"),
        )
        for one, audited in bar
    ]
    write_episodes(order.out / f"{variant}.json", episodes)
    replaced = sum(session.replaced for _, audited in told for session in audited.sessions)
    row: dict[str, Any] = {"episodes": len(episodes), "messages_by_rules": replaced}
    if GAP_TOKENS[variant]:
        row["fillers"] = {domain: _counted(pool) for domain, pool in pools.items()}
    return row


def _counted(pool: Checked) -> dict[str, int]:
    removed = Counter(conflict for _, conflict in pool.removed)
    return {"free": len(pool.free), "judged": pool.judged, **{conflict: removed[conflict] for conflict in CONFLICTS}}


def _command(order: EpisodeOptions) -> str:
    """The command line that records what `order` needs; what is empty is left out."""
    given = {
        "--out": order.out,
        "--episodes": order.count,
        "--variants": ",".join(order.variants),
        "--seed": order.seed,
        "--models": order.models or "",
        "--fillers": order.fillers or "",
        "--filler-judge": order.filler_judge if order.filler_judge != "rules" else "",
        "--prompts": order.prompts or "",
    }
    return shell_command("beamlib meme generate", given, end=["--yes"])
