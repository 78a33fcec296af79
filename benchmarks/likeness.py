"""How much generated conversations behave like the released ones: what is counted, and the goals.

Everything is read under the paper's treatment (cut chats, markers taken out), code blocks are no text, and words are
runs of letters, digits and apostrophes in lower case. These definitions reproduce the figures that were found by hand
in the released 100K conversations, to about a hundredth.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
from scipy.stats import ks_2samp, spearmanr
from tqdm import tqdm

from beamlib.data.conversations import Conversation, Size
from beamlib.data.gold import ABILITIES, Gold
from beamlib.data.loading import load
from beamlib.data.sources import Source, find_conversations
from beamlib.files import sha256, write_text
from beamlib.processes import process_pool
from beamlib.retrieval.sparse import SparseIndex
from beamlib.scoring.evidence import evidence_table
from beamlib.text import count_tokens, split_sentences

KS = (5, 15)
RECALL = "evidence recall, "
"""How a row begins that holds the evidence recall of an arm at one K."""
MORE = "more: "
"""How a row begins that describes and has no goal; `--more` prints it."""
AGREEMENT = "rank agreement"
ORDER = "rank agreement over the arms"
VOCABULARY = 45_000
"""Words of the assistant in which its vocabulary is counted; shorter conversations have none."""
PIECE = 5
"""Words that a piece of text must have to be called a sentence: shorter ones are headings and greetings."""

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_PIECE_END = re.compile(r"[.!?:\n]+")
_WORD = re.compile(r"[a-z0-9']+")
_LETTERS = re.compile(r"[a-z]+")
CHANGE = re.compile(
    r"\b(?:now|no longer|instead|changed|moved|updated?:|rescheduled|postponed|pushed|switched|revised|extended"
    r"|corrected|correction|turns out|after all|used to|(?:the|a|one) change|quick update)\b",
    re.IGNORECASE,
)
"""A word or formula that tells that something has changed."""
_BACK = re.compile(r"\b(?:it|that|this|these|those|he|she|him|her|they|them|there)\b", re.IGNORECASE)
_DEFINITE = re.compile(r"\bthe [a-z]{3,}")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+")
_LIST = re.compile(r"^\s*(?:[-*•]|\d+[.)]) ", re.MULTILINE)
_HEADING = re.compile(r"^#+ ", re.MULTILINE)
_BOLD = re.compile(r"\*\*[^*]+\*\*")
_COUNTING = re.compile(r"\bhow (?:many|often)\b|\bnumber of\b|\bcount\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number of a tier: `value` over `n` units; `values` are those of single chats where they are kept."""

    size: Size
    row: str
    part: str
    value: float
    n: int
    values: tuple[float, ...] = ()


def words(text: str) -> list[str]:
    """Words of a text in lower case."""
    return _WORD.findall(text.lower())


def prose(text: str) -> str:
    """A message without its code blocks."""
    return _CODE.sub(" ", text)


def pieces(text: str) -> list[str]:
    """What counts as sentences when repetition is looked for: pieces of five or more words between . ! ? : and line
    ends, their words alone."""
    found = (words(piece) for piece in _PIECE_END.split(prose(text)))
    return [" ".join(piece) for piece in found if len(piece) >= PIECE]


def longest_shared(question: Sequence[str], text: Sequence[str]) -> int:
    """Length of the longest sequence of words that both hold, in words."""
    held, longest = f" {' '.join(text)} ", 0
    for start in range(len(question)):
        while start + longest < len(question) and f" {' '.join(question[start : start + longest + 1])} " in held:
            longest += 1
    return longest


def figures(folder: Path, sizes: Sequence[Size], workers: int = 2, *, quiet: bool = False) -> list[Figure]:
    """All figures of the conversations in `folder`, tier by tier."""
    found = []
    for size in sizes:
        sources = find_conversations(folder, [size])
        with process_pool(workers) as pool:
            bar = tqdm(pool.map(measured, sources), f"{size}: text", len(sources), unit="conv", disable=quiet)
            chats = list(bar)
        asked = [row for one in chats for row in one["asked"]]
        found += [*_text_figures(size, chats), *_question_figures(size, asked)]
        recalls = evidence_table(folder, [size], ks=KS, workers=workers, quiet=quiet)
        found += [
            Figure(size, f"{RECALL}{r['memory']} {r['retriever']} K={r['k']}", r["ability"], r["recall"], r["n"])
            for r in recalls
        ]
    return found


def measured(source: Source) -> dict[str, Any]:
    """Counts of one conversation and a row per question; runs in a process of its own."""
    loaded = load(source)
    conversation = loaded.conversation
    kinds = Counter(message.kind for message in conversation)
    finals = list(filter(None, (final_question(m.content) for m in conversation if m.kind == "main_question")))
    letters = [word for m in conversation if m.role == "assistant" for word in _LETTERS.findall(m.content.lower())]
    texts = [f"{pair.user.content}\n{pair.assistant.content}" for pair in conversation.pairs]
    index = SparseIndex([[text] for text in texts])
    return {
        "pieces": {
            role: [int(sha256(piece)[:15], 16) for m in conversation if m.role == role for piece in pieces(m.content)]
            for role in ("assistant", "user")
        },
        "finals": (len(finals) - len(set(finals)), len(finals)),
        "vocabulary": len(set(letters[:VOCABULARY])) if len(letters) >= VOCABULARY else None,
        "shape": {
            "replies": kinds["answer_ai_question"],
            "follow-ups": kinds["followup_question"],
            "turns": len(conversation.turns),
            "user messages": len(conversation.messages) // 2,
            "tokens": sum(count_tokens(message.content) for message in conversation),
            "probes": len(loaded.probes),
        },
        "more": _shapes(conversation),
        "asked": [_asked(p.question, loaded.gold[p.id], conversation, index) for p in loaded.probes],
    }


def final_question(message: str) -> str:
    """The last sentence of a message that ends in a question mark, its words alone; empty where there is none."""
    asked = [sentence for sentence in split_sentences(message) if sentence.endswith("?")]
    return " ".join(words(asked[-1])) if asked else ""


def _asked(question: str, gold: Gold, conversation: Conversation, index: SparseIndex) -> dict[str, Any]:
    """What is measured of one question against the messages it cites."""
    found: dict[str, Any] = {"ability": gold.ability}
    texts = {message.id: message.content for message in conversation if message.id in gold.evidence}
    if texts:
        asked = words(question)
        found["shared"] = max(longest_shared(asked, words(text)) for text in texts.values())
        cited = {place for place, pair in enumerate(conversation.pairs) if texts.keys() & set(pair.message_ids)}
        ranking = [hit.owner for hit in index.search(question, len(conversation.pairs))]
        found["precision"] = len(cited.intersection(ranking[: len(cited)])) / len(cited)
        found |= _more_of(asked, texts, ranking, cited)
    if gold.ability == "knowledge_update":
        cited_update = (gold.extras.get("source_chat_ids") or {}).get("updated_info") or ()
        told = " ".join(prose(texts[one]) for one in cited_update if one in texts)
        found["change"] = bool(CHANGE.search(told)) if told else None
    if gold.ability == "multi_session_reasoning":
        counting = "counting" if _COUNTING.search(question) else "difference, sum, comparison"
        found["kind"] = "synthesis over 4 or more messages" if len(texts) >= 4 else counting
    return found


def _more_of(
    asked: Sequence[str], texts: Mapping[int, str], ranking: Sequence[int], cited: Iterable[int]
) -> dict[str, float]:
    """What a question and its evidence look like: numbers that no goal is set for."""
    places = {owner: place for place, owner in enumerate(ranking)}
    ranks = sorted(places.get(owner, len(ranking)) for owner in cited)
    told = [set(words(text)) for text in texts.values()]
    return {
        f"{MORE}words of the question": len(asked),
        f"{MORE}messages cited": len(texts),
        f"{MORE}pairs cited": len(ranks),
        f"{MORE}messages between first and last cited": max(texts) - min(texts),
        f"{MORE}share of the question's words in the closest cited message": max(
            sum(word in own for word in asked) / max(len(asked), 1) for own in told
        ),
        f"{MORE}pairs that match better than the best cited": ranks[0],
        f"{MORE}keyword rank of the worst cited pair": ranks[-1] + 1,
    }


def _shapes(conversation: Conversation) -> dict[str, float]:
    """Means over the messages of a conversation: how long they are, and what they are made of."""
    users = [prose(message.content) for message in conversation if message.role == "user"]
    answers = [prose(message.content) for message in conversation if message.role == "assistant"]
    third = max(len(conversation.pairs) // 3, 1)
    found = {
        "words of a user's message": fmean(len(words(text)) for text in users),
        "words of an answer, first third": fmean(len(words(text)) for text in answers[:third]),
        "words of an answer, last third": fmean(len(words(text)) for text in answers[-third:]),
        "sentences of an answer": fmean(len(split_sentences(text)) for text in answers),
        "user's messages without a question mark": _mean("?" not in text for text in users),
        "user's messages that refer back (that, it, she, ...)": _mean(bool(_BACK.search(text)) for text in users),
        "user's messages with 'the' and a noun but no name": _mean(
            bool(_DEFINITE.search(text)) and not _NAME.search(text) for text in users
        ),
    }
    for name, pattern in (("lists", _LIST), ("headings", _HEADING), ("bold", _BOLD)):
        found[f"answers with {name}"] = _mean(bool(pattern.search(text)) for text in answers)
    return {f"{MORE}{name}": value for name, value in found.items()}


def _text_figures(size: Size, chats: Sequence[Mapping[str, Any]]) -> list[Figure]:
    found = []
    for role in ("assistant", "user"):
        lists = [one["pieces"][role] for one in chats]
        total = sum(map(len, lists))
        again = total - sum(len(set(own)) for own in lists)
        found.append(Figure(size, "repeated sentences", role, again / max(total, 1), total))
    held = Counter(piece for one in chats for piece in set(one["pieces"]["assistant"]))
    shares = [_mean(held[piece] > 1 for piece in one["pieces"]["assistant"]) for one in chats]
    found.append(Figure(size, "sentences of another chat", "assistant", fmean(shares), len(shares)))
    before, asked = (sum(one["finals"][place] for one in chats) for place in (0, 1))
    found.append(Figure(size, "final questions asked before", "", before / max(asked, 1), asked))
    sizes = [one["vocabulary"] for one in chats if one["vocabulary"] is not None]
    if sizes:
        found.append(Figure(size, "vocabulary in 45,000 words", "assistant", fmean(sizes), len(sizes)))
    for name in chats[0]["shape"]:
        values = tuple(sorted(one["shape"][name] for one in chats))
        found.append(Figure(size, "per chat", name, fmean(values), len(values), values))
    for name in chats[0]["more"]:
        found.append(Figure(size, name, "", fmean(one["more"][name] for one in chats), len(chats)))
    return found


def _question_figures(size: Size, asked: Sequence[Mapping[str, Any]]) -> list[Figure]:
    found = []
    rows = {"shared": "longest shared sequence", "precision": "keyword R-precision"}
    rows |= {key: key for one in asked for key in one if key.startswith(MORE)}
    for key, row in rows.items():
        for ability in ABILITIES:
            values = [one[key] for one in asked if one["ability"] == ability and key in one]
            if values:
                found.append(Figure(size, row, ability, fmean(values), len(values)))
    changes = [one["change"] for one in asked if one.get("change") is not None]
    if changes:
        found.append(Figure(size, "updates with a word of change", "", _mean(changes), len(changes)))
    kinds = [one["kind"] for one in asked if "kind" in one]
    for kind in ("counting", "synthesis over 4 or more messages", "difference, sum, comparison"):
        found.append(Figure(size, "multi-session questions", kind, _mean(one == kind for one in kinds), len(kinds)))
    return found


def agreements(generated: Sequence[Figure], released: Sequence[Figure]) -> list[Figure]:
    """Spearman's rank correlation of evidence recall in generated and in released conversations.

    One figure per tier, memory, retriever and K, over the abilities that both have (`n`); then one per tier and K over
    these arms, by their recall of all questions.
    """
    theirs = {(one.size, one.row, one.part): one.value for one in released}
    ranked: dict[tuple[Size, str, str], list[tuple[float, float]]] = {}
    for one in generated:
        key = (one.size, one.row, one.part)
        if not one.row.startswith(RECALL) or key not in theirs:
            continue
        over = (one.size, ORDER, one.row.rpartition(" ")[2]) if one.part == "all" else (one.size, one.row, AGREEMENT)
        ranked.setdefault(over, []).append((one.value, theirs[key]))
    return [
        Figure(*over, float(spearmanr(*zip(*pairs, strict=True)).statistic), len(pairs))
        for over, pairs in ranked.items()
        if len(pairs) > 2
    ]


def agreement_rows(generated: Sequence[Figure], released: Sequence[Figure]) -> list[dict[str, Any]]:
    """The agreements as the captions of the product read them (`beamlib.report.footer`)."""
    chats = [{one.size: one.n for one in found if one.part == "probes"} for found in (generated, released)]
    return [
        {
            "size": one.size,
            "over": "arms" if one.row == ORDER else "abilities",
            "part": one.part if one.row == ORDER else one.row.removeprefix(RECALL),
            "spearman": round(one.value, 3),
            "n": one.n,
            "generated": chats[0][one.size],
            "released": chats[1][one.size],
        }
        for one in agreements(generated, released)
    ]


_AT_MOST: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("repeated sentences", "assistant"): {"100K": 0.20},
    ("repeated sentences", "user"): {"100K": 0.06},
    ("sentences of another chat", "assistant"): {"100K": 0.05},
    ("final questions asked before", ""): {"100K": 0.02, "500K": 0.06, "10M": 0.10},
    ("updates with a word of change", ""): {"100K": 0.40, "500K": 0.40, "1M": 0.40, "10M": 0.40},
}
_WITHIN = {"longest shared sequence": 1.5, "keyword R-precision": 0.15, RECALL: 0.12}
_LEAST_AGREEMENT = 0.8
_SPREAD = ("replies", "follow-ups")
_TABLE3 = 0.05


def goal(one: Figure, released: Figure | None, printed: float | None = None) -> tuple[str, bool | None]:
    """The goal of a figure in words, and whether it is met; an empty one and None where there is none.

    `printed` is Table 3's mean, for the counts per chat that are in it.
    """
    if (most := _AT_MOST.get((one.row, one.part), {}).get(one.size)) is not None:
        return f"<= {most:.2f}", one.value <= most
    if one.part == AGREEMENT:
        return f">= {_LEAST_AGREEMENT}", one.value >= _LEAST_AGREEMENT
    if printed is not None and one.part not in _SPREAD:
        return f"{printed:,.0f} within 5 %", abs(one.value / printed - 1) <= _TABLE3
    if released is None:
        return "", None
    if one.row == "per chat" and one.part in _SPREAD:
        p = float(ks_2samp(one.values, released.values).pvalue)
        return "spread (K-S p >= .05)", p >= 0.05
    width = next((width for row, width in _WITHIN.items() if one.row.startswith(row)), None)
    if width is not None and one.part in ABILITIES:
        return f"within {width}", abs(one.value - released.value) <= width
    return "", None


def write_figures(path: Path, found: Sequence[Figure]) -> Path:
    """Keep figures as CSV, rounded to six digits."""
    rows = [asdict(one) | {"values": " ".join(f"{value:g}" for value in one.values)} for one in found]
    return write_text(path, pd.DataFrame(rows).to_csv(index=False, float_format="%.6g"))


def read_figures(path: Path) -> list[Figure]:
    """What `write_figures` kept."""
    frame = pd.read_csv(path, keep_default_na=False)
    return [
        Figure(size, row, part, value, n, tuple(map(float, values.split())))
        for size, row, part, value, n, values in frame.itertuples(index=False)
    ]


def _mean(flags: Iterable[bool]) -> float:
    held = list(flags)
    return sum(held) / len(held) if held else 0.0
