"""How similar generated conversations are to the released ones: the figures and their goals.

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
from scipy.stats import ks_2samp, spearmanr
from tqdm import tqdm

from beamlib.data.conversations import Conversation, Size
from beamlib.data.gold import ABILITIES, Gold
from beamlib.data.loading import load
from beamlib.data.sources import Source, find_conversations
from beamlib.files import sha256, write_text
from beamlib.processes import process_pool
from beamlib.retrieval.sparse import SparseIndex
from beamlib.scoring.measured import evidence_rows
from beamlib.text import count_tokens, split_sentences

KS = (5, 15)
RECALL = "evidence recall, "
"""The prefix of rows with the evidence recall of an arm at one K."""
AGREEMENT = "rank agreement"
ORDER = "rank agreement over the arms"
VOCABULARY = 45_000
"""The assistant's words in which its vocabulary is counted; shorter conversations have none."""
PIECE = 5
"""The fewest words of a sentence: shorter pieces are headings and greetings."""

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_PIECE_END = re.compile(r"[.!?:\n]+")
_WORD = re.compile(r"[a-z0-9']+")
_LETTERS = re.compile(r"[a-z]+")
CHANGE = re.compile(
    r"\b(?:now|no longer|instead|changed|moved|updated?:|rescheduled|postponed|pushed|switched|revised|extended"
    r"|corrected|correction|turns out|after all|used to|(?:the|a|one) change|quick update)\b",
    re.IGNORECASE,
)
"""Words and phrases that say that something has changed."""
_COUNTING = re.compile(r"\bhow (?:many|often)\b|\bnumber of\b|\bcount\b", re.IGNORECASE)


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
        rows += [
            Figure(
                size,
                f"{RECALL}{r['arm'].partition(' ')[0]} {r['retriever']} K={r['k']}",
                r["ability"],
                r["recall"],
                r["n"],
            )
            for r in recalls
        ]
    return rows


def measured(source: Source) -> dict[str, Any]:
    """Count one conversation, with a row per question; runs in a process of its own."""
    loaded = load(source)
    conversation = loaded.conversation
    kinds = Counter(message.kind for message in conversation)
    finals = list(filter(None, (final_question(m.content) for m in conversation if m.kind == "main_question")))
    letters = [word for m in conversation if m.role == "assistant" for word in _LETTERS.findall(m.content.lower())]
    index = SparseIndex([[f"{pair.user.content}\n{pair.assistant.content}"] for pair in conversation.pairs])
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
        "asked": [_asked(p.question, loaded.gold[p.id], conversation, index) for p in loaded.probes],
    }


def final_question(message: str) -> str:
    """Return the words of the last sentence of a message that ends in a question mark, "" if there is none."""
    asked = [sentence for sentence in split_sentences(message) if sentence.endswith("?")]
    return " ".join(words(asked[-1])) if asked else ""


def _asked(question: str, gold: Gold, conversation: Conversation, index: SparseIndex) -> dict[str, Any]:
    """Measure one question against the messages it cites."""
    row: dict[str, Any] = {"ability": gold.ability}
    texts = {message.id: message.content for message in conversation if message.id in gold.evidence}
    if texts:
        row["shared"] = max(longest_shared(words(question), words(text)) for text in texts.values())
        cited = {place for place, pair in enumerate(conversation.pairs) if texts.keys() & set(pair.message_ids)}
        ranking = [hit.owner for hit in index.search(question, len(conversation.pairs))]
        row["precision"] = len(cited.intersection(ranking[: len(cited)])) / len(cited)
    if gold.ability == "knowledge_update":
        update = (gold.extras.get("source_chat_ids") or {}).get("updated_info") or ()
        text = " ".join(prose(texts[message]) for message in update if message in texts)
        row["change"] = bool(CHANGE.search(text)) if text else None
    if gold.ability == "multi_session_reasoning":
        counting = "counting" if _COUNTING.search(question) else "difference, sum, comparison"
        row["kind"] = "synthesis over 4 or more messages" if len(texts) >= 4 else counting
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
    before, asked = (sum(chat["finals"][place] for chat in chats) for place in (0, 1))
    rows.append(Figure(size, "final questions asked before", "", before / max(asked, 1), asked))
    sizes = [chat["vocabulary"] for chat in chats if chat["vocabulary"] is not None]
    if sizes:
        rows.append(Figure(size, "vocabulary in 45,000 words", "assistant", fmean(sizes), len(sizes)))
    for name in chats[0]["shape"]:
        values = tuple(sorted(chat["shape"][name] for chat in chats))
        rows.append(Figure(size, "per chat", name, fmean(values), len(values), values))
    return rows


def _question_figures(size: Size, asked: Sequence[Mapping[str, Any]]) -> list[Figure]:
    rows = []
    for key, name in (("shared", "longest shared sequence"), ("precision", "keyword R-precision")):
        for ability in ABILITIES:
            values = [row[key] for row in asked if row["ability"] == ability and key in row]
            if values:
                rows.append(Figure(size, name, ability, fmean(values), len(values)))
    changes = [row["change"] for row in asked if row.get("change") is not None]
    if changes:
        rows.append(Figure(size, "updates with a word of change", "", _mean(changes), len(changes)))
    kinds = [row["kind"] for row in asked if "kind" in row]
    for kind in ("counting", "synthesis over 4 or more messages", "difference, sum, comparison"):
        rows.append(Figure(size, "multi-session questions", kind, _mean(own == kind for own in kinds), len(kinds)))
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


def goal(figure: Figure, released: Figure | None, printed: float | None = None) -> tuple[str, bool | None]:
    """Return the goal of a figure in words and whether it is met; "" and None where there is nfigure.

    `printed` is Table 3's mean of a count per chat.
    """
    if (most := _AT_MOST.get((figure.row, figure.part), {}).get(figure.size)) is not None:
        return f"<= {most:.2f}", figure.value <= most
    if figure.part == AGREEMENT:
        return f">= {_LEAST_AGREEMENT}", figure.value >= _LEAST_AGREEMENT
    if printed is not None and figure.part not in _SPREAD:
        return f"{printed:,.0f} within 5 %", abs(figure.value / printed - 1) <= _TABLE3
    if released is None:
        return "", None
    if figure.row == "per chat" and figure.part in _SPREAD:
        p = float(ks_2samp(figure.values, released.values).pvalue)
        return "spread (K-S p >= .05)", p >= 0.05
    width = next((width for row, width in _WITHIN.items() if figure.row.startswith(row)), None)
    if width is not None and figure.part in ABILITIES:
        return f"within {width}", abs(figure.value - released.value) <= width
    return "", None


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
