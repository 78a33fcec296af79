"""Which fillers agree with every episode of a domain: no value of it is named in them, and no kind of conflict found.

The three kinds are looked for by rules in everything, which costs nothing. A model, where there is one, judges what the
rules leave: for every sentence that could be gold the ten nearest fillers by BM25 and the ten nearest by static
vectors. Any conflict removes a filler; of the offline author's conversations, single turns are removed by the rules
before they are cut into sessions.

("MEME", arXiv 2605.12477, sections 1 and 2.5 of the fact sheet; there text-embedding-3-small and GPT-4o-mini.)
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tqdm import tqdm

from beam_meme.domains import bank_of, gold_sentences
from beam_meme.episodes import Domain, Line
from beam_meme.fillers import STORIES, Filler, cut, offline_conversations, read_fillers
from beamlib.files import parse_json
from beamlib.llm.model import Completion, Model, ModelError, Prompt
from beamlib.llm.retrying import ReadReply, ask, gather
from beamlib.retrieval.dense import DenseIndex
from beamlib.retrieval.encoder import embedded_encoder
from beamlib.retrieval.sparse import SparseIndex, tokenize
from beamlib.text import split_sentences

CONFLICT = "meme_filler_conflict"
"""Prompt id."""

Conflict = Literal["contradiction", "alternative", "confusion"]
"""A: the user says something that cannot be true beside the sentence. B: a value of the thing is given. C: the user
speaks of a thing of their own that goes by nearly the same name."""
CONFLICTS: tuple[Conflict, ...] = get_args(Conflict)
NEAREST = 10
"""Fillers that are judged for a sentence, of either kind of nearness."""

_WORD = re.compile(r"\w+")
_OBJECT = re.compile(r"\{[^{}]*\}")
_FIRST_PERSON = frozenset({"i", "my", "mine", "me", "we", "our", "ours", "us"})
_POSSESSIVE = frozenset({"my", "our"})
_BETWEEN = 2  # words between "my" and the thing, as in "my usual weekly plan"
_AGAIN = 'The first reply was not the JSON object asked for. Reply with {"contradiction", "alternative", "confusion"}.'


class Rules:
    """The three conflicts by rule, with anything that an episode of a domain can be about."""

    def __init__(self, domain: Domain) -> None:
        self._values: dict[str, list[list[str]]] = {}
        self._keywords: list[list[str]] = []
        self._stems: dict[str, str] = {}
        bank = bank_of(domain)
        self._heads = frozenset(self._stemmed(bank.heads))
        for one in bank.entities.values():
            self._keywords.append(self._stemmed(_words(one.keyword)))
            for words in map(_words, one.pool):
                self._values.setdefault(words[0], []).append(words)

    def conflict(self, lines: Iterable[Line]) -> Conflict | None:
        """The first conflict of what is said with any episode, None without one."""
        for line in lines:
            if self._names_value(_words(line.content)):
                return "alternative"
            if line.role == "user":
                for sentence in split_sentences(line.content):
                    if found := self._own(_words(sentence)):
                        return found
        return None

    def _names_value(self, words: Sequence[str]) -> bool:
        places = [place for place, word in enumerate(words) if word in self._values]
        return any(words[place : place + len(one)] == one for place in places for one in self._values[words[place]])

    def _own(self, words: Sequence[str]) -> Conflict | None:
        """What the user says of a thing of their own: under its whole keyword A, under a head of it alone C.

        A head that names it in other words is C whoever's it is: a user seldom says "my" of an insomnia.
        """
        stems = self._stemmed(words)
        spoken_of: Conflict | None = "confusion" if self._heads.intersection(stems) else None
        if not _FIRST_PERSON.intersection(words):
            return spoken_of
        near = {
            stem
            for place, word in enumerate(words)
            if word in _POSSESSIVE
            for stem in stems[place + 1 : place + 2 + _BETWEEN]
        }
        for keyword in self._keywords:
            if set(keyword) <= set(stems):
                return "contradiction"
            if keyword[-1] in near:
                return "confusion"
        return spoken_of

    def _stemmed(self, words: Sequence[str]) -> list[str]:
        for word, found in zip(new := [word for word in words if word not in self._stems], tokenize(new), strict=True):
            self._stems[word] = found[0] if found else word
        return [self._stems[word] for word in words]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


@dataclass(frozen=True)
class Checked:
    """The fillers that are left, in order; why others (or single turns) went, by name; pairs that a model judged."""

    free: tuple[Filler, ...]
    removed: tuple[tuple[str, Conflict], ...]
    judged: int = 0


def pool_of(domain: Domain, seed: int, folder: Path | None = None) -> Checked:
    """The fillers of a domain in which the rules find nothing, from a folder of the user's or the offline author.

    Of the author's conversations the turns with a conflict are left out before the conversations are cut.
    """
    rules = Rules(domain)
    if folder is not None:
        return by_rules(read_fillers(folder, domain), rules)
    told = offline_conversations(domain, seed)
    free: list[Filler] = []
    removed: list[tuple[str, Conflict]] = []
    for name, turns in tqdm(told, desc=f"fillers, {domain}", total=STORIES, disable=None, leave=False, delay=2):
        whole = [Filler(f"{name}, turn {number}", turn) for number, turn in enumerate(turns, start=1)]
        neutral = by_rules(whole, rules)
        free += cut(name, [one.lines for one in neutral.free], random.Random(f"meme fillers {seed} {name}"))
        removed += neutral.removed
    return Checked(tuple(free), tuple(removed))


def by_rules(fillers: Sequence[Filler], rules: Rules) -> Checked:
    """Those of `fillers` in which the rules find nothing."""
    found = [(one, rules.conflict(one.lines)) for one in fillers]
    removed = tuple((one.name, conflict) for one, conflict in found if conflict)
    return Checked(tuple(one for one, conflict in found if conflict is None), removed)


async def by_model(fillers: Sequence[Filler], domain: Domain, model: Model) -> Checked:
    """Those of `fillers` in which `model` finds nothing beside the sentences that they are near to.

    Where it gives no readable verdict the filler goes: there are others. A `ModelError` that may pass is raised.
    """
    pairs = nearest(fillers, gold_sentences(domain))
    verdicts = await gather(_judge(model, _prompt(*pair)) for pair in pairs)
    removed = {one.name: conflict for (_, one), conflict in zip(pairs, verdicts, strict=True) if conflict}
    free = tuple(one for one in fillers if one.name not in removed)
    return Checked(free, tuple(sorted(removed.items())), len(pairs))


def verdict_prompts(fillers: Sequence[Filler], domain: Domain) -> list[Prompt]:
    """What `by_model` asks."""
    return [_prompt(*pair) for pair in nearest(fillers, gold_sentences(domain))]


def nearest(fillers: Sequence[Filler], sentences: Sequence[str]) -> list[tuple[str, Filler]]:
    """Each sentence with the `NEAREST` fillers by words and by vectors."""
    if not fillers:
        return []
    texts = [[one.text] for one in fillers]
    indexes = (SparseIndex(texts), DenseIndex(texts, embedded_encoder()))
    found: list[tuple[str, Filler]] = []
    for sentence in sentences:
        owners = {hit.owner for index in indexes for hit in index.search(sentence, NEAREST)}
        found += [(sentence, fillers[owner]) for owner in sorted(owners)]
    return found


def _prompt(sentence: str, filler: Filler) -> Prompt:
    session = "\n\n".join(f"{line.role.upper()}: {line.content}" for line in filler.lines)
    return Prompt(CONFLICT, {"sentence": sentence, "session": session}, f"filler {filler.name}")


async def _judge(model: Model, prompt: Prompt) -> Conflict | None:
    def read(reply: Completion, attempt: int) -> ReadReply[dict[str, bool] | None]:
        found = read_verdict(reply.text)
        return found, _AGAIN if found is None else None

    try:
        verdict = await ask(model, prompt, read)
    except ModelError as error:
        if error.transient:
            raise
        verdict = None
    if verdict is None:
        return CONFLICTS[0]
    return next((one for one in CONFLICTS if verdict[one]), None)


def read_verdict(text: str) -> dict[str, bool] | None:
    """The last JSON object of a reply that says true or false of all three conflicts, None without one."""
    for found in reversed(_OBJECT.findall(text)):
        try:
            value = parse_json(found)
        except ValueError:
            continue
        if all(isinstance(value.get(one), bool) for one in CONFLICTS):
            return {one: value[one] for one in CONFLICTS}
    return None
