"""Nuggets with known verdicts, made up, and how a judge's verdicts on them agree with what is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from beamlib.llm.model import Completion, ModelError, Prompt
from beamlib.scoring.replies import read_score

_FACTS = (
    ("How many hives do I keep?", "fourteen hives", "nine hives"),
    ("Where did I leave the spare key?", "under the blue pot", "in the car"),
    ("When is the choir's concert?", "on 9 May", "on 2 June"),
    ("Who repaired the boiler?", "Ingrid", "Casper"),
    ("What does the new saddle cost?", "340 euros", "120 euros"),
    ("Which train do I take on Mondays?", "the 7:12 to Lund", "the 9:40 to Ystad"),
    ("What did the vet advise for the dog?", "less food and more walks", "a course of pills"),
    ("Which paint did I choose for the hall?", "a warm grey", "a light green"),
    ("How long is the trail to the hut?", "eleven kilometres", "four kilometres"),
    ("What is the name of my sister's boat?", "Heron", "Little Owl"),
)
_REFUSAL = "I am sorry, I cannot help with that."


@dataclass(frozen=True)
class KnownVerdict:
    """A nugget to judge, and the score that it earns."""

    prompt: Prompt
    score: float


def known_verdicts(*, question: bool = True) -> list[KnownVerdict]:
    """Return thirty nuggets: each of ten answered rightly, wrongly, and by a refusal or an echo of the question.

    Args:
        question: Whether the judge sees the question, as in the run.
    """
    verdicts: list[KnownVerdict] = []
    for number, (fact, right, wrong) in enumerate(_FACTS):
        nothing = _REFUSAL if number % 2 else f"You ask: {fact}"
        for answer, score in ((f"It is {right}.", 1.0), (f"It is {wrong}.", 0.0), (nothing, 0.0)):
            nugget = f"LLM response should state: {right}"
            variables = {"question": fact if question else "", "answer": answer, "nugget": nugget}
            about = f"known nugget {len(verdicts) + 1}"
            verdicts.append(KnownVerdict(Prompt("judge_nugget", variables, about), score))
    return verdicts


LEAST_READ, LEAST_KAPPA = 0.9, 0.6
"""The bar of a judge: the share of its replies that have a verdict, and kappa, from 0.6 on "substantial" (Landis and
Koch, 1977). A judge that gives every nugget the same score, or random ones, has a kappa about 0."""


@dataclass(frozen=True)
class JudgeExam:
    """How a judge did.

    Attributes:
        read: Replies that have a verdict, of `asked`.
        kappa: Cohen's kappa of these verdicts with what is known.
    """

    asked: int
    read: int
    kappa: float

    @classmethod
    def of(cls, known: Sequence[KnownVerdict], replies: Sequence[Completion | ModelError]) -> JudgeExam:
        """Compare a judge's replies with what is known."""
        pairs = [
            (item.score, score)
            for item, reply in zip(known, replies, strict=True)
            if isinstance(reply, Completion) and (score := read_score(reply.text)[0]) is not None
        ]
        agreed = sum(truth == score for truth, score in pairs) / max(1, len(pairs))
        truths, scores = Counter(truth for truth, _ in pairs), Counter(score for _, score in pairs)
        chance = sum(truths[score] * scores[score] for score in truths) / max(1, len(pairs)) ** 2
        return cls(len(known), len(pairs), (agreed - chance) / (1 - chance) if chance < 1 else 0.0)

    @property
    def passed(self) -> bool:
        """Whether it reached the bar."""
        return self.read >= LEAST_READ * self.asked and self.kappa >= LEAST_KAPPA

    @property
    def line(self) -> str:
        """The result in a sentence, for people and footers."""
        below = "" if self.passed else f", below the bar ({LEAST_READ:.0%} readable, kappa {LEAST_KAPPA})"
        return (
            f"the judge's exam: {self.read} of {self.asked} known nuggets have a readable verdict, "
            f"kappa {self.kappa:.2f} with the truth{below}"
        )
