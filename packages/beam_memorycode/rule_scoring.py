"""Scores of answers: every rule's verdict, and the share of applicable rules that hold.

The paper's text counts an answer as correct only if it follows all instructions at once; its Table 4 agrees only with
the mean share, which is what is computed here (`RELEASED`). The other readings are `VARIANTS`, for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from beam_memorycode.dialogue_files import LoadedDialogue
from beam_memorycode.objects import AS_RELEASED, Groups, Looking, objects
from beam_memorycode.outputs import Outputs
from beam_memorycode.parsing import Unparsable, extract_code, parse, python_blocks
from beam_memorycode.rule_gold import Rule
from beam_memorycode.rules import RuleVerdict, verdict

ScoredSetup = Literal["instruction", "session", "history"]


@dataclass(frozen=True, slots=True)
class ScoringRule:
    """How code is taken from an answer and what is looked at in it: the released rules, or a departure from them.

    `joined` joins all python fences of an answer, `looking` says what counts as an object, `every_name` and
    `empty_is_absent` are as in `rules.verdict`.
    """

    joined: bool = False
    looking: Looking = AS_RELEASED
    every_name: bool = False
    empty_is_absent: bool = False


@dataclass(frozen=True, slots=True)
class Variant:
    """A way of scoring. `absent` is what an absent object counts, None for not at all; `all_at_once` counts an answer
    only if no rule fails; `skip_unparsed` leaves answers out that do not parse.
    """

    name: str
    reading: ScoringRule = ScoringRule()
    absent: int | None = None
    all_at_once: bool = False
    skip_unparsed: bool = False


RELEASED = Variant("released")
VARIANTS: tuple[Variant, ...] = (
    RELEASED,
    Variant("all rules at once", all_at_once=True),
    Variant("every name, not the first", ScoringRule(every_name=True)),
    Variant("absent counts 0", absent=0),
    Variant("absent counts 1", absent=1),
    Variant("unparsed left out", skip_unparsed=True),
    Variant("empty arguments or attributes are absent", ScoringRule(empty_is_absent=True)),
    Variant("attributes anywhere in __init__", ScoringRule(looking=Looking(loose_attributes=True))),
    Variant("from-imports count", ScoringRule(looking=Looking(import_from=True))),
    Variant("a # in a string is no comment", ScoringRule(looking=Looking(real_comments=True))),
    Variant("all python fences joined", ScoringRule(joined=True)),
)


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """One answer under its rules. `place` counts the answers of a session (instruction, session) or dialogue (history).

    `failure` says why the code does not parse ("" where it does); then every verdict is `fail`. `unscored` says that
    there was no answer at all; then there are no verdicts.
    """

    setup: ScoredSetup
    dialogue_id: int
    session: int
    place: int
    rules: tuple[Rule, ...]
    verdicts: tuple[RuleVerdict, ...]
    failure: str = ""
    unscored: bool = False

    def score_by(self, variant: Variant) -> Fraction | None:
        """The share of applicable rules that hold, counted as in `variant`, whose `reading` is in the verdicts.

        None where no rule applies.
        """
        if self.unscored or (self.failure and variant.skip_unparsed):
            return None
        passed, failed = self.verdicts.count(RuleVerdict.PASS), self.verdicts.count(RuleVerdict.FAIL)
        absent = len(self.verdicts) - passed - failed
        if variant.absent is not None:
            passed, failed = passed + absent * variant.absent, failed + absent * (1 - variant.absent)
        if passed + failed == 0:
            return None
        return Fraction(failed == 0) if variant.all_at_once else Fraction(passed, passed + failed)


MOST_KEPT = 40_000_000
"""Characters of answers whose groups are kept, more than a published model wrote; groups can take ten times as much."""


@dataclass
class _Kept:
    """What is in answers' code, the last used last, and the characters of those answers."""

    groups: dict[str, Groups | str] = field(default_factory=dict)
    characters: int = 0


@dataclass
class Scorer:
    """Scores answers by one reading; what is in an answer's code is kept, as instruction answers repeat often.

    Those that were used last are kept, up to `MOST_KEPT` characters of answers.
    """

    reading: ScoringRule = ScoringRule()
    _kept: _Kept = field(default_factory=_Kept)

    def verdicts(self, answer: str, rules: Sequence[Rule]) -> tuple[tuple[RuleVerdict, ...], str]:
        """The verdict of every rule on an answer, and why its code does not parse ("" where it does)."""
        kept = self._kept
        groups = kept.groups.pop(answer, None)
        if groups is None:
            groups = self._groups(answer)
            kept.characters += len(answer)
        kept.groups[answer] = groups  # now the last
        while kept.characters > MOST_KEPT:
            oldest = next(iter(kept.groups))
            del kept.groups[oldest]
            kept.characters -= len(oldest)
        if isinstance(groups, str):
            return (RuleVerdict.FAIL,) * len(rules), groups
        every, empty = self.reading.every_name, self.reading.empty_is_absent
        return tuple(verdict(rule, groups, every_name=every, empty_is_absent=empty) for rule in rules), ""

    def _groups(self, answer: str) -> Groups | str:
        """What is in an answer's code, or why it does not parse."""
        blocks = python_blocks(answer) if self.reading.joined else []
        code = "\n".join(blocks) if blocks else extract_code(answer)
        try:
            tree = parse(code)
        except Unparsable as error:
            return str(error)
        return objects(tree, code, self.reading.looking)


def score_outputs(
    items: Iterable[LoadedDialogue],
    outputs: Mapping[int, Outputs],
    scorer: Scorer | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[ScoredAnswer]:
    """Every answer of `outputs` scored, in the order of dialogues, setups and sessions; dialogues without are skipped.

    Without a `scorer` it is done by the released reading. `progress` is called with 1 after each dialogue.
    """
    scorer = scorer or Scorer()
    scored: list[ScoredAnswer] = []
    for item in items:
        found = outputs.get(item.dialogue.id)
        if found is not None:
            scored += [_score(scorer, *one) for one in applications(item, found)]
        if progress:
            progress(1)
    return scored


Application = tuple[ScoredSetup, int, int, int, str | None, tuple[Rule, ...]]
"""Setup, dialogue, session, place, answer, and the rules it is held against."""


def applications(item: LoadedDialogue, outputs: Outputs) -> Iterator[Application]:
    """Every answer of a dialogue with the rules it is held against."""
    number, rules = item.dialogue.id, item.rules
    for session, answers in enumerate(outputs.instruction or ()):
        for place, answer in enumerate(answers):
            yield "instruction", number, session, place, answer, rules.sessions[session][place : place + 1]
    for session, answers in enumerate(outputs.session or ()):
        for place, answer in enumerate(answers):
            yield "session", number, session, place, answer, rules.sessions[session]
    for place, answer in enumerate(outputs.history or ()):
        yield "history", number, len(rules.sessions) - 1, place, answer, rules.history


def _score(
    scorer: Scorer,
    setup: ScoredSetup,
    number: int,
    session: int,
    place: int,
    answer: str | None,
    rules: tuple[Rule, ...],
) -> ScoredAnswer:
    if answer is None:
        return ScoredAnswer(setup, number, session, place, rules, (), unscored=True)
    verdicts, failure = scorer.verdicts(answer, rules)
    return ScoredAnswer(setup, number, session, place, rules, verdicts, failure)
