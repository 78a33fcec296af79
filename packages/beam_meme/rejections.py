"""Examples of fillers that conflict with what an episode can be about, with the words that do (Figure 7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pandas as pd

from beam_meme.episodes import DOMAINS, Domain, Line
from beam_meme.fillers import CONFLICTS, Conflict, Filler, Rules, offline_conversations, read_fillers
from beamlib.report.table import Table
from beamlib.text import split_sentences

_MOST_TURNS = 300
"""Of the offline author, who can write any number: its conflicts repeat."""
_MEANING = {
    "contradiction": "the user tells of a thing that an episode can be about",
    "alternative": "a value that such a thing can have",
    "confusion": "a thing of nearly the same name",
}


@dataclass(frozen=True, slots=True)
class Rejection:
    """A filler that the rules reject: the sentence, and the fewest words in a row that conflict by themselves."""

    filler: str
    conflict: Conflict
    role: str
    sentence: str
    phrase: str

    @property
    def marked(self) -> str:
        """The sentence with the phrase between guillemets."""
        return self.sentence.replace(self.phrase, f"«{self.phrase}»", 1)


def rejected_fillers(domain: Domain, seed: int, folder: Path | None = None) -> Iterator[Rejection]:
    """Yield what the rules reject of a folder of fillers, or of the first turns that the offline author writes."""
    rules = Rules(domain)
    told = offline_conversations(domain, seed) if folder is None else iter(())
    turns = (Filler(f"{name}, turn {number}", turn) for name, own in told for number, turn in enumerate(own, start=1))
    for filler in islice(turns, _MOST_TURNS) if folder is None else read_fillers(folder, domain):
        if found := reject(filler, rules):
            yield found


def reject(filler: Filler, rules: Rules) -> Rejection | None:
    """Find the first sentence of a filler that conflicts, and in it the words that do; None without a conflict."""
    conflict = rules.conflict(filler.lines)
    if conflict is None:
        return None
    line = next(line for line in filler.lines if rules.conflict([line]))
    sentences = [" ".join(sentence.split()) for sentence in split_sentences(line.content)]
    whole = " ".join(line.content.split())  # a value may reach over what looks like the end of a sentence
    sentence = next((one for one in sentences if rules.conflict([Line(line.role, one)]) == conflict), whole)
    words = sentence.split()
    for end in (0, -1):
        while len(words) > 1:
            fewer = words[1:] if end == 0 else words[:-1]
            if rules.conflict([Line(line.role, " ".join(fewer))]) != conflict:
                break
            words = fewer
    return Rejection(filler.name, conflict, line.role, sentence, " ".join(words))


def rejection_table(seed: int, folder: Path | None = None, each: int = 1) -> Table:
    """Show `each` examples of every conflict in both domains, the words that conflict marked."""
    rows = []
    for domain in DOMAINS:
        found: dict[Conflict, list[Rejection]] = {conflict: [] for conflict in CONFLICTS}
        for rejection in rejected_fillers(domain, seed, folder):
            if len(found[rejection.conflict]) < each:
                found[rejection.conflict].append(rejection)
            if all(len(own) == each for own in found.values()):
                break
        rows += [
            (domain, conflict, own.filler, own.role, own.marked) for conflict in CONFLICTS for own in found[conflict]
        ]
    frame = pd.DataFrame(rows, columns=["domain", "conflict", "filler", "who", "sentence"])
    source = f"the fillers in {folder.name}" if folder else f"the offline author, seed {seed}"
    meanings = "; ".join(f"{conflict}: {_MEANING[conflict]}" for conflict in CONFLICTS)
    absent = [conflict for conflict in CONFLICTS if conflict not in set(frame["conflict"])]
    none = f" No example of {', '.join(absent)} was found." if absent else ""
    notes = (f"Rejected by rule, of {source}. «…»: the words that conflict by themselves. {meanings}.{none}",)
    return Table("MEME: rejected fillers", frame.astype(str), notes, names=2, csv=frame, frame=frame)
