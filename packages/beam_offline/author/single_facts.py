"""Probing questions of the ten abilities, each from facts of the world: question, answer, evidence and nuggets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from beam_offline.author.grammar import series, to_you
from beam_offline.author.strand_facts import Entry, Fact
from beam_offline.author.window import Idea, ProbeWindow, Reply, Shown, state_of, telling
from beam_offline.author.word_bank import Absence

_NEAR_REQUEST = 0.9
"""How often a request on a preference takes up words of it; released ones share almost three in a row with it."""
_ADVICE, _STEPS = 0.4, 3
"""Share of the questions on single statements that ask for advice (released: 51 of 184), and how many points of it."""


def information_extraction(window: ProbeWindow) -> Iterator[Idea]:
    """A value, a day, a person or a choice with its reason, told once and never changed; or what was advised on it."""
    for fact in window.final():
        if fact.kind.kind in ("tally", "list"):
            continue  # told several times, and each time answered with other advice
        if window.rng.random() < _ADVICE:
            yield _advice(window, fact)
        elif fact.kind.kind != "event":
            yield _single(window, fact)


def _single(window: ProbeWindow, fact: Fact) -> Idea:
    question = window.put(fact, "information_extraction")
    asked = {"date": "date_recall", "choice": "detail_recall"}.get(fact.kind.kind, "numerical_precision")
    key_facts = [fact.v, *([to_you(fact.reason)] if fact.reason else [])]

    def ask(shown: Shown) -> Reply:
        return {
            "question": question,
            "answer": f"You told me that {state_of(fact)}.",
            "difficulty": "easy" if len(key_facts) == 1 else "medium",
            "question_type": asked,
            "conversation_reference": f"The user's message on {fact.kind.np}",
            "key_facts_tested": key_facts,
            "evidence": telling(shown, fact.clause),
            "nuggets": [f"LLM response should state: {one}" for one in key_facts],
        }

    return Idea(window.named(fact), [fact.place], ask)


def _advice(window: ProbeWindow, fact: Fact) -> Idea:
    question = window.asked(fact.strand, window.say("ask_advice", np=fact.kind.np))

    def ask(shown: Shown) -> Reply:
        script = window.script(fact.place[0])
        told = telling(shown, fact.clause)
        after = [(one, said) for one, role, said in shown if role == "assistant" and told and one == told[0] + 1]
        turn = next((one for one in script.all_turns if one.entry.place == fact.place), None)
        # Where code or a problem was shown, the answer is about that.
        advice = script.answer(turn, 0).advice[:_STEPS] if turn and turn.steps[0].exercise is None else ()
        given = list(dict.fromkeys(one for one in advice if after and one.casefold() in after[0][1].casefold()))
        return {
            "question": question if len(given) == _STEPS else "",
            "answer": f"I suggested that you {series(given)}." if given else "",
            "difficulty": "hard",
            "question_type": "advice_recall",
            "conversation_reference": f"The assistant's answer to the message on {fact.kind.np}",
            "key_facts_tested": given,
            "evidence": [*told, *(number for number, _ in after)],
            "nuggets": [f"LLM response should state: {one}" for one in given],
        }

    return Idea(f"advice on {window.named(fact)}", [fact.place], ask)


def knowledge_update(window: ProbeWindow) -> Iterator[Idea]:
    """The newest value of something that was revised."""
    for entry in window.entries:
        fact = entry.fact
        if fact and fact.revises and entry.purpose == "update" and fact.revises.place[0] in window.plans:
            yield _newest(window, fact, fact.revises)


def _newest(window: ProbeWindow, fact: Fact, old: Fact) -> Idea:
    question = window.put(fact, "knowledge_update")

    def ask(shown: Shown) -> Reply:
        return {
            "question": question,
            "answer": fact.v,
            "difficulty": "easy",
            "update_type": f"{fact.kind.kind}_change",
            "tests_retention_of": f"the value of {window.named(fact)} that holds last",
            "conversation_references": [state_of(old), state_of(fact)],
            "potential_confusion": f"The answer may give the earlier value, {old.v}.",
            "evidence": {"original": telling(shown, old.clause), "updated": telling(shown, fact.clause)},
            "old_value": old.v,
            "new_value": fact.v,
            "nuggets": [f"LLM response should state: {fact.v}"],
        }

    return Idea(window.named(fact), [old.place, fact.place], ask, {"original": old.place, "updated": fact.place})


def contradiction_resolution(window: ProbeWindow) -> Iterator[Idea]:
    """Whether something was done that the user has both told, of one strand, and denied."""
    told = Counter(one.clause for one in window.every if one.purpose == "fact")
    for entry in window.entries:
        fact = entry.fact
        if fact and entry.purpose == "contradiction" and fact.place[0] in window.plans and told[fact.clause] < 2:
            yield _denied(window, entry, fact)


def _denied(window: ProbeWindow, entry: Entry, fact: Fact) -> Idea:
    question = window.put(fact, "contradiction_resolution")
    told, denied = to_you(fact.clause), to_you(entry.clause)

    def ask(shown: Shown) -> Reply:
        return {
            "question": question,
            "answer": (
                f"Your messages contradict each other here: you said that {told}, but you also said that {denied}. "
                "Which of the two is correct?"
            ),
            "difficulty": "clear",
            "contradiction_type": "never_statement_violation",
            "topic_questioned": window.named(fact),
            "conversation_references": [state_of(fact), denied],
            "tests_for": "The answer should point the contradiction out and ask which statement holds.",
            "evidence": {"first": telling(shown, fact.clause), "second": telling(shown, entry.clause)},
            "nuggets": [
                "LLM response should state: there is contradictory information",
                f"LLM response should mention: you said that {told}",
                f"LLM response should mention: you also said that {denied}",
                "LLM response should mention: which statement is correct?",
            ],
        }

    return Idea(window.named(fact), [fact.place, entry.place], ask, {"first": fact.place, "second": entry.place})


def preference_following(window: ProbeWindow) -> Iterator[Idea]:
    """A request that a stated preference should shape the answer to."""
    for entry in window.entries:
        if (liked := entry.preference) is not None:
            wanted = ["Response should keep to the stated preference: ", entry.clause]
            near = window.rng.random() < _NEAR_REQUEST
            question = liked.requests[0] if near else window.rng.choice(liked.requests[1:])
            yield _following(window, entry, "preference", question, liked.signs, wanted, liked.against)


def instruction_following(window: ProbeWindow) -> Iterator[Idea]:
    """A request that one standing instruction, and no other, is about."""
    ruled = Counter(one.occasion for found in window.world.entries.values() for one in found if one.rule)
    for entry in window.entries:
        if entry.rule is not None and ruled[entry.occasion] == 1:
            question = window.rng.choice(entry.strand.kind.requests)
            if not window.world.occasion(entry.strand)[1]:
                question = window.say("which_strand", full=window.full(entry.strand), ask=question)
            signs, against = entry.rule.signs, "answers without following the instruction"
            wanted = ["Response should follow the instruction: ", "; ".join(signs)]
            yield _following(window, entry, "instruction", question, signs, wanted, against)


def _following(
    window: ProbeWindow, entry: Entry, what: str, question: str, signs: Sequence[str], wanted: list[str], against: str
) -> Idea:
    def ask(shown: Shown) -> Reply:
        return {
            "question": question,
            f"{what}_being_tested": entry.text,
            "answer": f"{''.join(wanted)}.",
            "compliance_indicators": list(signs),
            "non_compliance_signs": [against],
            "difficulty": "medium",
            f"{what}_type": "stated preference" if what == "preference" else "format_instruction",
            "evidence": telling(shown, entry.clause),
            "nuggets": [f"LLM response should contain: {sign}" for sign in signs],
        }

    return Idea(f"the {what}: {entry.text}", [entry.place], ask)


def abstention(window: ProbeWindow) -> Iterator[Idea]:
    """A detail that nobody ever gave of something that was talked about."""
    for facts in window.strands().values():
        for absent in facts[0].strand.kind.absent:
            yield _absent(window, facts[0], absent)


def _absent(window: ProbeWindow, fact: Fact, absent: Absence) -> Idea:
    question, entity = window.asked(fact.strand, absent.ask), fact.strand.kind.short[0]

    def ask(shown: Shown) -> Reply:
        return {
            "question": question,
            "answer": f"Based on the provided chat, there is no information related to {absent.detail}.",
            "difficulty": "hard",
            "abstention_type": "missing_detail",
            "why_unanswerable": f"The chat never gives {absent.detail}.",
            "plan_reference": f"Bullet {'.'.join(map(str, fact.place))}",
            "entity": entity,
            "detail": absent.detail,
            "keyword": absent.keyword,
        }

    return Idea(f"{entity}: {absent.keyword}", [], ask)
