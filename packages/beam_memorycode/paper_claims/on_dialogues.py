"""Formulas on the published dialogues: what the seeds, the parameters and Table 2 say of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from statistics import fmean, pstdev

from scipy.stats import spearmanr

from beam_claims.values import ClaimOutcome, count_outcome, figures, holds, number, verdict, worst
from beam_memorycode.dialogues import Dialogue
from beam_memorycode.memorycode_figures import mentioned
from beam_memorycode.paper_claims.on_evidence import MemoryCodeEvidence

_FIRST_INSTRUCTION_FILLER = 100  # ids from here on are tool and habit orders, those below are topics of talk


def sizes(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Count the dialogues in all, and for each number of sessions."""
    counts = Counter(len(dialogue.sessions) for dialogue in data.dialogues)
    total, each = (int(value) for value in figures(printed))
    expected = [int(value) for value in data.published.values("sessions_per_history")]
    status = holds(len(data.dialogues) == total and sorted(counts) == expected and set(counts.values()) == {each})
    return ClaimOutcome({str(count): counts[count] for count in sorted(counts)}, status)


def instructions(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Count the distinct instructions that are mentioned."""
    return count_outcome(printed, data.mentions["instruction"].nunique())


def updatable(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Count the instructions with more than one value, and the most updates of one."""
    values = data.mentions.groupby("instruction")["value"].nunique()
    several = sorted(values[values > 1].tolist())
    note = f"Values of each: {', '.join(map(str, several))}; a value never returns, so one fewer update."
    return count_outcome(printed, [len(several), several[-1] - 1 if several else 0], note)


def most_updates(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Return the most often that one dialogue updates one instruction."""
    return count_outcome(printed, int(data.mentions.groupby(["dialogue", "instruction"]).size().max()) - 1)


def updates_grow(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Check that updates per dialogue rise with the number of sessions: rank correlation of at least 0.9."""
    means = _by_count(data, lambda dialogue: sum(mentioned(dialogue).values()) - len(mentioned(dialogue)))
    values = list(means.values())
    correlation = float(spearmanr(range(len(values)), values).statistic)
    falling = [after for (after, high), low in zip(list(means.items())[1:], values, strict=False) if high < low]
    note = f"Updates per dialogue; rank correlation {correlation:.2f}. Steps that fall: {', '.join(falling) or 'none'}."
    return ClaimOutcome({count: round(value, 2) for count, value in means.items()}, holds(correlation >= 0.9), note)


def one_query(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Count the instructions that have the same query for all their values."""
    queries = data.mentions.groupby("instruction")["query"].nunique()
    same = int((queries == 1).sum())
    return ClaimOutcome(f"{same} of {len(queries)}", holds(same == len(queries)))


def regular_expressions(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Count the instructions whose check is a pattern on a name."""
    conditions = data.mentions.groupby("instruction")["condition"].last()
    patterns = sum(isinstance(condition, str) for condition in conditions)
    note = "The others ask for an object or a name in the syntax tree."
    return ClaimOutcome(f"{patterns} of {len(conditions)}", holds(patterns == len(conditions)), note)


def fillers(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Count the distinct fillers: in all, topics of talk, instruction-like ones."""
    used = {session.filler for dialogue in data.dialogues for session in dialogue.sessions} - {None}
    topics = sum(1 for filler in used if filler is not None and filler < _FIRST_INSTRUCTION_FILLER)
    recomputed = [len(used), topics, len(used) - topics]
    return count_outcome(printed, recomputed)


def filler_updates(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Return the most often that one dialogue updates one filler."""
    most = {"topic": 0, "instruction-like": 0}
    for dialogue in data.dialogues:
        for filler, count in Counter(session.filler for session in dialogue.sessions).items():
            if filler is not None:
                kind = "topic" if filler < _FIRST_INSTRUCTION_FILLER else "instruction-like"
                most[kind] = max(most[kind], count - 1)
    return ClaimOutcome(most, holds(figures(printed) == [max(most.values())]))


def personas(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Count the distinct personas of mentors and of mentees."""
    contexts = [dialogue.context for dialogue in data.dialogues]
    counts = [len({own.mentor_persona for own in contexts}), len({own.mentee_persona for own in contexts})]
    return count_outcome(printed, counts, "The two counts are swapped in the text.")


def names(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Check whether names are drawn independently: then there are more triples than names."""
    contexts = [dialogue.context for dialogue in data.dialogues]
    mentors = len({own.mentor for own in contexts})
    triples = len({(own.mentor, own.mentee, own.company) for own in contexts})
    note = "Each mentor comes with one mentee and one company." if mentors == triples else ""
    return ClaimOutcome({"mentors": mentors, "triples": triples}, holds(triples > mentors), note)


def instruction_share(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Compare the share of a dialogue's sessions with instructions, in percent, with the printed range."""
    low, high = figures(printed)
    shares = {
        dialogue.id: Decimal(100 * sum(bool(session.mentions) for session in dialogue.sessions))
        / len(dialogue.sessions)
        for dialogue in data.dialogues
    }
    outside = Counter(len(dialogue.sessions) for dialogue in data.dialogues if not low <= shares[dialogue.id] <= high)
    ends = [number(min(shares.values()), 1), number(max(shares.values()), 1)]
    note = "; ".join(f"{count} of {size} sessions" for size, count in sorted(outside.items()))
    return ClaimOutcome(ends, holds(not outside), f"Dialogues outside the range: {note}." if note else "")


def per_session(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Count the instructions of a session that has any: the fewest and the most."""
    sessions = [session for dialogue in data.dialogues for session in dialogue.sessions]
    counts = Counter(len(session.mentions) for session in sessions if session.mentions)
    recomputed = {str(size): counts[size] for size in sorted(counts)}
    return ClaimOutcome(recomputed, holds([min(counts), max(counts)] == figures(printed)), "Sessions by number.")


def filler_only(data: MemoryCodeEvidence, printed: str) -> ClaimOutcome:
    """Count the sessions that have nothing but a filler."""
    sessions = [session for dialogue in data.dialogues for session in dialogue.sessions]
    alone = sum(session.filler is not None and not session.mentions for session in sessions)
    return ClaimOutcome(f"{alone} of {len(sessions)}", holds(alone > 0))


_STATISTICS: Mapping[str, Callable[[Dialogue], int]] = {
    "sessions": lambda dialogue: len(dialogue.sessions),
    "sessions_with_instructions": lambda dialogue: sum(bool(session.mentions) for session in dialogue.sessions),
    "instructions": lambda dialogue: _topics(dialogue, "instruction-add", "instruction-update"),
    "instructions_added": lambda dialogue: _topics(dialogue, "instruction-add"),
    "instructions_updated": lambda dialogue: _topics(dialogue, "instruction-update"),
    "fillers": lambda dialogue: sum(session.filler is not None for session in dialogue.sessions),
    "fillers_added": lambda dialogue: _topics(dialogue, "filler-add", "filler-instruction-add"),
    "fillers_updated": lambda dialogue: _topics(dialogue, "filler-update", "filler-instruction-update"),
}


def statistic(data: MemoryCodeEvidence, printed: str, parameter: str) -> ClaimOutcome:
    """Compare mean and population standard deviation per dialogue, short and long, with Table 2."""
    recomputed, statuses = {}, []
    for subset in ("short", "long"):
        dialogues = [dialogue for dialogue in data.dialogues if dialogue.short == (subset == "short")]
        values = list(map(_STATISTICS[parameter], dialogues))
        moments = fmean(values), pstdev(values)
        recomputed[subset] = [round(value, 2) for value in moments]
        for target, value in zip(data.published.statistic(parameter, subset), moments, strict=True):
            if target is not None:
                statuses.append(verdict(target, Decimal(repr(value))))
    return ClaimOutcome(recomputed, worst(statuses), "Mean and population deviation; 15 sessions are short.")


def _topics(dialogue: Dialogue, *types: str) -> int:
    return sum(topic.type in types for session in dialogue.sessions for topic in session.topics)


def _by_count(data: MemoryCodeEvidence, value: Callable[[Dialogue], int]) -> dict[str, float]:
    """Return the mean of `value` over the dialogues of each number of sessions."""
    groups: dict[int, list[int]] = {}
    for dialogue in data.dialogues:
        groups.setdefault(len(dialogue.sessions), []).append(value(dialogue))
    return {str(count): fmean(groups[count]) for count in sorted(groups)}
