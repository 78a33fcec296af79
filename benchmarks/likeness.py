"""How similar generated conversations are to the released ones: the figures.

Everything is read under the paper's treatment (cut chats, markers removed), without code blocks; words are runs of
letters, digits and apostrophes in lower case.
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
from scipy.stats import spearmanr
from tqdm import tqdm

from beam_commands.measuring import evidence_rows
from beamlib.data.conversations import Conversation, Size
from beamlib.data.gold import ABILITIES, Gold
from beamlib.data.loading import load
from beamlib.data.sources import Source, find_conversations
from beamlib.files import sha256, write_text
from beamlib.processes import process_pool
from beamlib.retrieval.sparse import SparseIndex
from beamlib.text import count_tokens

KS = (5, 15)
RECALL = "evidence recall, "
"""The prefix of rows with the evidence recall of an arm at one K."""
AGREEMENT = "rank agreement"
ORDER = "rank agreement over the arms"
FIRST = 550_000
"""Words of a chat, from its beginning, in which different words and repeated sequences are counted."""
PIECE = 5
"""The fewest words of a sentence: shorter pieces are headings and greetings."""

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_PIECE_END = re.compile(r"[.!?:\n]+")
_WORD = re.compile(r"[a-z0-9']+")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number of a tier: `value` over `n` units, and the `values` of single chats where they are kept."""

    size: Size
    row: str
    part: str
    value: float
    n: int
    values: tuple[float, ...] = ()


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.lower())


def prose(text: str) -> str:
    """Return a message without its code blocks."""
    return _CODE.sub(" ", text)


def pieces(text: str) -> list[str]:
    """Return pieces of five or more words between . ! ? : and line ends, in which repetition is counted."""
    parts = (words(piece) for piece in _PIECE_END.split(prose(text)))
    return [" ".join(piece) for piece in parts if len(piece) >= PIECE]


def longest_shared(question: Sequence[str], text: Sequence[str]) -> int:
    """Return the length of the longest sequence of words that both have, in words."""
    joined, longest = f" {' '.join(text)} ", 0
    for start in range(len(question)):
        while start + longest < len(question) and f" {' '.join(question[start : start + longest + 1])} " in joined:
            longest += 1
    return longest


def figures(folder: Path, sizes: Sequence[Size], workers: int = 2, *, quiet: bool = False) -> list[Figure]:
    """Measure all figures of the conversations in `folder`, tier by tier."""
    rows = []
    for size in sizes:
        sources = find_conversations(folder, [size])
        with process_pool(workers) as pool:
            bar = tqdm(pool.map(measured, sources), f"{size}: text", len(sources), unit="conv", disable=quiet)
            chats = list(bar)
        rows += [
            *_text_figures(size, chats),
            *_question_figures(size, [row for chat in chats for row in chat["asked"]]),
        ]
        recalls = evidence_rows(folder, [size], ks=KS, workers=workers, quiet=quiet)
        for row in recalls:
            arm = f"{RECALL}{row['arm'].partition(' ')[0]} {row['retriever']} K={row['k']}"
            rows.append(Figure(size, arm, row["ability"], row["recall"], row["n"]))
    return rows


def measured(source: Source) -> dict[str, Any]:
    """Count one conversation, with a row per question; runs in a process of its own."""
    loaded = load(source)
    conversation = loaded.conversation
    kinds = Counter(message.kind for message in conversation)
    first = words(" ".join(message.content for message in conversation))[:FIRST]
    sequences = list(zip(*(first[start:] for start in range(5)), strict=False))
    index = SparseIndex([[f"{pair.user.content}\n{pair.assistant.content}"] for pair in conversation.pairs])
    return {
        "pieces": {
            role: [int(sha256(piece)[:15], 16) for m in conversation if m.role == role for piece in pieces(m.content)]
            for role in ("assistant", "user")
        },
        "lexical": {
            "different words": len(set(first)),
            "repeated sequences of five": 1 - len(set(sequences)) / max(len(sequences), 1),
        },
        "shape": {
            "replies": kinds["answer_ai_question"],
            "follow-ups": kinds["followup_question"],
            "turns": len(conversation.turns),
            "user messages": len(conversation.messages) // 2,
            "tokens": sum(count_tokens(message.content) for message in conversation),
            "probes": len(loaded.probes),
        },
        "asked": [_asked(p.question, loaded.gold[p.id], conversation, index) for p in loaded.probes],
    }


def _asked(question: str, gold: Gold, conversation: Conversation, index: SparseIndex) -> dict[str, Any]:
    """Measure one question against the messages it cites."""
    row: dict[str, Any] = {"ability": gold.ability}
    texts = {message.id: message.content for message in conversation if message.id in gold.evidence}
    if texts:
        row["shared"] = max(longest_shared(words(question), words(text)) for text in texts.values())
        cited = {place for place, pair in enumerate(conversation.pairs) if texts.keys() & set(pair.message_ids)}
        ranking = [hit.owner for hit in index.search(question, len(conversation.pairs))]
        row["precision"] = len(cited.intersection(ranking[: len(cited)])) / len(cited)
    return row


def _text_figures(size: Size, chats: Sequence[Mapping[str, Any]]) -> list[Figure]:
    rows = []
    for role in ("assistant", "user"):
        lists = [chat["pieces"][role] for chat in chats]
        total = sum(map(len, lists))
        again = total - sum(len(set(own)) for own in lists)
        rows.append(Figure(size, "repeated sentences", role, again / max(total, 1), total))
    chats_with = Counter(piece for chat in chats for piece in set(chat["pieces"]["assistant"]))
    shares = [_mean(chats_with[piece] > 1 for piece in chat["pieces"]["assistant"]) for chat in chats]
    rows.append(Figure(size, "sentences of another chat", "assistant", fmean(shares), len(shares)))
    for row, kind in ((f"first {FIRST:,} words", "lexical"), ("per chat", "shape")):
        for name in chats[0][kind]:
            values = tuple(sorted(chat[kind][name] for chat in chats))
            rows.append(Figure(size, row, name, fmean(values), len(values), values))
    return rows


def _question_figures(size: Size, asked: Sequence[Mapping[str, Any]]) -> list[Figure]:
    rows = []
    for key, name in (("shared", "longest shared sequence"), ("precision", "keyword R-precision")):
        for ability in ABILITIES:
            values = [row[key] for row in asked if row["ability"] == ability and key in row]
            if values:
                rows.append(Figure(size, name, ability, fmean(values), len(values)))
    return rows


def agreements(generated: Sequence[Figure], released: Sequence[Figure]) -> list[Figure]:
    """Compute Spearman's rank correlation of evidence recall in generated and in released conversations.

    One figure per tier, memory, retriever and K over the abilities that both have (`n`), and one per tier and K over
    these arms, by their recall of all questions.
    """
    theirs = {(figure.size, figure.row, figure.part): figure.value for figure in released}
    ranked: dict[tuple[Size, str, str], list[tuple[float, float]]] = {}
    for size, row, part, value in ((own.size, own.row, own.part, own.value) for own in generated):
        if row.startswith(RECALL) and (size, row, part) in theirs:
            over = (size, ORDER, row.rpartition(" ")[2]) if part == "all" else (size, row, AGREEMENT)
            ranked.setdefault(over, []).append((value, theirs[size, row, part]))
    return [
        Figure(*over, float(spearmanr(*zip(*pairs, strict=True)).statistic), len(pairs))
        for over, pairs in ranked.items()
        if len(pairs) > 2
    ]


def agreement_rows(generated: Sequence[Figure], released: Sequence[Figure]) -> list[dict[str, Any]]:
    """Return the agreements as captions read them (`beamlib.report.footer`)."""
    chats = [{own.size: own.n for own in side if own.part == "probes"} for side in (generated, released)]
    return [
        {
            "size": own.size,
            "over": "arms" if own.row == ORDER else "abilities",
            "part": own.part if own.row == ORDER else own.row.removeprefix(RECALL),
            "spearman": round(own.value, 3),
            "n": own.n,
            "generated": chats[0][own.size],
            "released": chats[1][own.size],
        }
        for own in agreements(generated, released)
    ]


def write_figures(path: Path, measured: Sequence[Figure]) -> Path:
    """Write figures as CSV, rounded to six digits."""
    rows = [asdict(own) | {"values": " ".join(f"{value:g}" for value in own.values)} for own in measured]
    return write_text(path, pd.DataFrame(rows).to_csv(index=False, float_format="%.6g"))


def read_figures(path: Path) -> list[Figure]:
    """Read figures that `write_figures` wrote."""
    frame = pd.read_csv(path, keep_default_na=False)
    return [
        Figure(size, row, part, value, n, tuple(map(float, values.split())))
        for size, row, part, value, n, values in frame.itertuples(index=False)
    ]


def _mean(flags: Iterable[bool]) -> float:
    values = list(flags)
    return sum(values) / len(values) if values else 0.0
