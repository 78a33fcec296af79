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
from beam_memorycode.paper_claims.on_evidence import Evidence

_FIRST_INSTRUCTION_FILLER = 100  # ids from here on are tool and habit orders, those below are topics of talk


def sizes(data: Evidence, printed: str) -> ClaimOutcome:
    """Dialogues in all, and for each number of sessions."""
    counts = Counter(len(dialogue.sessions) for dialogue in data.dialogues)
    total, each = (int(value) for value in figures(printed))
    expected = [int(value) for value in data.published.values("sessions_per_history")]
    status = holds(len(data.dialogues) == total and sorted(counts) == expected and set(counts.values()) == {each})
    return ClaimOutcome({str(count): counts[count] for count in sorted(counts)}, status)


def instructions(data: Evidence, printed: str) -> ClaimOutcome:
    """Distinct instructions that are mentioned."""
    return count_outcome(printed, len({number for dialogue in data.dialogues for number in mentioned(dialogue)}))


def updatable(data: Evidence, printed: str) -> ClaimOutcome:
    """Instructions with more than one value; `printed` is how many, and the most updates."""
    values: dict[int, set[int]] = {}
    for dialogue in data.dialogues:
        for session in dialogue.sessions:
            for mention in session.mentions:
                values.setdefault(mention.instruction, set()).add(mention.value)
    several = sorted(len(found) for found in values.values() if len(found) > 1)
    recomputed = [len(several), several[-1] - 1 if several else 0]
    note = f"Values of each: {', '.join(map(str, several))}; a value never returns, so one fewer update."
    return count_outcome(printed, recomputed, note)


def most_updates(data: Evidence, printed: str) -> ClaimOutcome:
    """The most often that one dialogue updates one instruction."""
    return count_outcome(printed, max(max(mentioned(dialogue).values(), default=1) - 1 for dialogue in data.dialogues))


def updates_grow(data: Evidence, printed: str) -> ClaimOutcome:
    """Updates per dialogue rise with the number of sessions: rank correlation of at least 0.9."""
    means = _by_count(data, lambda dialogue: sum(mentioned(dialogue).values()) - len(mentioned(dialogue)))
    values = list(means.values())
    correlation = float(spearmanr(range(len(values)), values).statistic)
    falling = [after for (after, high), low in zip(list(means.items())[1:], values, strict=False) if high < low]
    note = f"Updates per dialogue; rank correlation {correlation:.2f}. Steps that fall: {', '.join(falling) or 'none'}."
    return ClaimOutcome({count: round(value, 2) for count, value in means.items()}, holds(correlation >= 0.9), note)


def one_query(data: Evidence, printed: str) -> ClaimOutcome:
    """Every instruction has the same query for all its values."""
    queries: dict[int, set[str]] = {}
    for dialogue in data.dialogues:
        for session in dialogue.sessions:
            for mention, query in zip(session.mentions, session.queries, strict=True):
                queries.setdefault(mention.instruction, set()).add(query)
    several = sum(len(found) > 1 for found in queries.values())
    return ClaimOutcome(f"{len(queries) - several} of {len(queries)}", holds(not several))


def regular_expressions(data: Evidence, printed: str) -> ClaimOutcome:
    """Share of instructions whose check is a pattern on a name."""
    conditions = {
        mention.instruction: rule.condition
        for item in data.items
        for session, rules in zip(item.dialogue.sessions, item.rules.sessions, strict=True)
        for mention, rule in zip(session.mentions, rules, strict=True)
    }
    patterns = sum(isinstance(condition, str) for condition in conditions.values())
    note = "The others ask for an object or a name in the syntax tree."
    return ClaimOutcome(f"{patterns} of {len(conditions)}", holds(patterns == len(conditions)), note)


def fillers(data: Evidence, printed: str) -> ClaimOutcome:
    """Distinct fillers: in all, topics of talk, instruction-like ones."""
    used = {session.filler for dialogue in data.dialogues for session in dialogue.sessions} - {None}
    topics = sum(1 for filler in used if filler is not None and filler < _FIRST_INSTRUCTION_FILLER)
    recomputed = [len(used), topics, len(used) - topics]
    return count_outcome(printed, recomputed)


def filler_updates(data: Evidence, printed: str) -> ClaimOutcome:
    """The most often that one dialogue updates one filler."""
    most = {"topic": 0, "instruction-like": 0}
    for dialogue in data.dialogues:
        for filler, count in Counter(session.filler for session in dialogue.sessions).items():
            if filler is not None:
                kind = "topic" if filler < _FIRST_INSTRUCTION_FILLER else "instruction-like"
                most[kind] = max(most[kind], count - 1)
    return ClaimOutcome(most, holds(figures(printed) == [max(most.values())]))


def personas(data: Evidence, printed: str) -> ClaimOutcome:
    """Distinct personas of mentors and of mentees."""
    contexts = [dialogue.context for dialogue in data.dialogues]
    recomputed = [len({one.mentor_persona for one in contexts}), len({one.mentee_persona for one in contexts})]
    return count_outcome(printed, recomputed, "The two counts are swapped in the text.")


def names(data: Evidence, printed: str) -> ClaimOutcome:
    """Names are drawn one by one: then there are more triples than names."""
    contexts = [dialogue.context for dialogue in data.dialogues]
    mentors = len({one.mentor for one in contexts})
    triples = len({(one.mentor, one.mentee, one.company) for one in contexts})
    note = "Each mentor comes with one mentee and one company." if mentors == triples else ""
    return ClaimOutcome({"mentors": mentors, "triples": triples}, holds(triples > mentors), note)


def instruction_share(data: Evidence, printed: str) -> ClaimOutcome:
    """Share of a dialogue's sessions that carry instructions, in percent, against the printed range."""
    low, high = figures(printed)
    shares = {
        dialogue.id: Decimal(100 * sum(bool(session.mentions) for session in dialogue.sessions))
        / len(dialogue.sessions)
        for dialogue in data.dialogues
    }
    outside = Counter(len(one.sessions) for one in data.dialogues if not low <= shares[one.id] <= high)
    ends = [number(min(shares.values()), 1), number(max(shares.values()), 1)]
    note = "; ".join(f"{count} of {size} sessions" for size, count in sorted(outside.items()))
    return ClaimOutcome(ends, holds(not outside), f"Dialogues outside the range: {note}." if note else "")


def per_session(data: Evidence, printed: str) -> ClaimOutcome:
    """Instructions of a session that has any: the fewest and the most."""
    counts = Counter(len(session.mentions) for one in data.dialogues for session in one.sessions if session.mentions)
    recomputed = {str(size): counts[size] for size in sorted(counts)}
    return ClaimOutcome(recomputed, holds([min(counts), max(counts)] == figures(printed)), "Sessions by number.")


def filler_only(data: Evidence, printed: str) -> ClaimOutcome:
    """Sessions that have nothing but a filler."""
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


def statistic(data: Evidence, printed: str, parameter: str) -> ClaimOutcome:
    """Mean and population standard deviation per dialogue of the short and the long set, against Table 2."""
    recomputed, statuses = {}, []
    for subset in ("short", "long"):
        values = [_STATISTICS[parameter](one) for one in data.dialogues if one.short == (subset == "short")]
        found = fmean(values), pstdev(values)
        recomputed[subset] = [round(value, 2) for value in found]
        for target, value in zip(data.published.statistic(parameter, subset), found, strict=True):
            if target is not None:
                statuses.append(verdict(target, Decimal(repr(value))))
    return ClaimOutcome(recomputed, worst(statuses), "Mean and population deviation; 15 sessions are short.")


def _topics(dialogue: Dialogue, *types: str) -> int:
    return sum(topic.type in types for session in dialogue.sessions for topic in session.topics)


def _by_count(data: Evidence, value: Callable[[Dialogue], int]) -> dict[str, float]:
    """Mean of `value` over the dialogues of each number of sessions."""
    groups: dict[int, list[int]] = {}
    for dialogue in data.dialogues:
        groups.setdefault(len(dialogue.sessions), []).append(value(dialogue))
    return {str(count): fmean(groups[count]) for count in sorted(groups)}
