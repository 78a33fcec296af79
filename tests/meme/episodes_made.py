"""Two small episodes in the released layout, written by hand: what the loader must read, whatever our writer writes.

The fields are those of the released files (section 2.1 of the fact sheet): values by entity, names as lists, lines as
`conveyed_in_turn`, no word on what changes for what depends on the root. `personal()` has a cascade over two hops, in
six sessions of which one is filler; `software()` has the older labels.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

MOTTO = "Slow is smooth,\nsmooth is early; the kettle knows."
LOG = "E-17: spool refused\n  at gate 4 (retry in 9 s)\nE-18: gave up"

Fact = tuple[str, str, str]
"""Entity, value and the sentence that tells it."""


def session(number: int, kind: str, facts: Sequence[Fact], filler: Sequence[str] = ()) -> dict[str, Any]:
    """A session of that place: the assistant greets, each of the user's lines is answered."""
    talk = [{"role": "assistant", "content": "Hi! What is on your mind?"}]
    for text in [*(sentence for *_, sentence in facts), *filler]:
        talk += [{"role": "user", "content": f"{text} Any tips?"}, {"role": "assistant", "content": "Sure, noted."}]
    time = f"2023/03/{1 + 2 * number:02d} (Wed) 09:00"
    if not facts:
        return {"session_id": f"pool_{number}", "type": "filler", "timestamp": time, "conversation": talk[1:]}
    told = [
        {
            "fact_id": place + 1,
            "entity": entity,
            "value": value,
            "fact_text": sentence,
            "conveyed_in_turn": 1 + 2 * place,
            "conveyed": True,
        }
        for place, (entity, value, sentence) in enumerate(facts)
    ]
    return {
        "session_id": f"evidence_{number}",
        "type": "evidence",
        "evidence_type": kind,
        "timestamp": time,
        "conversation": talk,
        "gold_facts": told,
    }


def asked(task: str, values: dict[str, Any], question: str, gold: str, hop: int | None = None) -> dict[str, Any]:
    """A question as the after round has it."""
    return {
        "task_type": task,
        "entity": list(values),
        "entity_values": values,
        "question": question,
        "gold_answer": gold,
        **({} if hop is None else {"hop": hop}),
    }


def before(one: dict[str, Any], value: str) -> dict[str, Any]:
    """The question of the before round that belongs to one of the after round."""
    rest = {name: one[name] for name in one if name != "gold_answer"}
    return {**rest, "entity_values": {one["entity"][0]: value}, "expected_answer": value}


def personal() -> dict[str, Any]:
    """Root employer; work location (middle) and commute (hop 2) have rules, the insurance has none."""
    cascade = asked("Cas", {"work_location": "Quill Tower"}, "Where is my work location?", "Quill Tower", 1)
    deeper = asked("Cas", {"commute_method": "the ferry Osk"}, "What is my commute method?", "the ferry Osk", 2)
    absent = asked(
        "Abs", {"insurance": "Plan Bramble"}, "What insurance do I have?", "Uncertain: the employer changed", 1
    )
    gone = asked("Del", {"pet": "a newt called Orin"}, "What pet do I have?", "No, it was removed")
    exact = asked("ER", {"life_philosophy": MOTTO}, "Recite my life philosophy word for word.", MOTTO)
    cup = {"tea": "Velm", "bread": "Hask", "cheese": "Torl"}
    after = [
        asked(
            "Tr",
            {"subscription": ["Lumo", "Pardix", "Wenlo"]},
            "List all my subscriptions in order.",
            "Lumo, Pardix, Wenlo",
        ),
        cascade,
        deeper,
        absent,
        gone,
        asked("Agg", cup, "What are my tea, bread and cheese?", "Velm, Hask and Torl"),
        exact,
    ]
    sessions = [
        session(
            0, "Part 1a", [("tea", "Velm", "My tea is Velm."), ("subscription", "Lumo", "My subscription is Lumo.")]
        ),
        session(1, "", [], ["How do I prune a pear tree?"]),
        session(
            2,
            "Part 1b",
            [
                ("bread", "Hask", "My bread is Hask."),
                ("subscription", "Pardix", "Update: my subscription is Pardix."),
                ("pet", "a newt called Orin", "My pet is a newt called Orin."),
            ],
        ),
        session(
            3,
            "Part 1c",
            [
                ("cheese", "Torl", "My cheese is Torl."),
                ("subscription", "Wenlo", "My subscription has changed again, it is Wenlo."),
                ("employer", "Brasko", "My employer is Brasko."),
            ],
        ),
        session(
            4,
            "Part 2",
            [
                ("work_location", "Pier 6", "My work location is Pier 6, which depends on my employer."),
                ("work_location", "Quill Tower", "If my employer changes, my work location will be Quill Tower."),
                ("commute_method", "the tram", "My commute method is the tram, which depends on my work location."),
                (
                    "commute_method",
                    "the ferry Osk",
                    "If my work location changes, my commute method will be the ferry Osk.",
                ),
                ("insurance", "Plan Bramble", "My insurance is Plan Bramble, which depends on my employer."),
                ("life_philosophy", MOTTO, f"Keep my life philosophy word for word: {MOTTO}"),
            ],
        ),
        session(
            5,
            "Change+Delete Event",
            [
                ("employer", "Denvik", "My employer is Denvik now."),
                ("pet", "a newt called Orin", "Please delete from your memory that my pet is a newt called Orin."),
            ],
        ),
    ]
    return {
        "episode_id": "pl_001",
        "domain": "personal_life",
        "root": "employer",
        "root_change": {"before": "Brasko", "after": "Denvik"},
        "chain_entities": ["work_location", "insurance", "commute_method"],
        "filler_entities": [],
        "entities": {
            "employer": {"before": "Brasko", "after": "Denvik", "task": None},
            "work_location": {"before": "Pier 6", "after": "Quill Tower", "hop": 1, "cascade_source": "employer"},
            "commute_method": {
                "before": "the tram",
                "after": "the ferry Osk",
                "hop": 2,
                "cascade_source": "work_location",
            },
            "insurance": {"before": "Plan Bramble", "after": None, "hop": 1, "cascade_source": "employer"},
            "pet": {"before": "a newt called Orin", "after": "deleted"},
            "subscription": {"before": "Lumo", "after": None, "history": ["Lumo", "Pardix", "Wenlo"]},
            "life_philosophy": {"before": MOTTO, "after": None},
            **{name: {"before": value, "after": None} for name, value in cup.items()},
        },
        "has_2hop": True,
        "dependency_edges_used": [
            {"source": "employer", "target": "work_location", "hop": 1, "pattern": "proximity"},
            {"source": "work_location", "target": "commute_method", "hop": 2, "pattern": "distance"},
            {"source": "employer", "target": "insurance", "hop": 1, "pattern": "company policy"},
        ],
        "tasks": _tasks(after),
        "total_sessions": 6,
        "evidence_sessions": 5,
        "filler_sessions": 1,
        "total_tokens": 300,
        "evidence_session_indices": [0, 2, 3, 4, 5],
        "sessions": sessions,
        "before_questions": {
            "timestamp": sessions[4]["timestamp"],
            "position_after_session": 4,
            "questions": [
                before(cascade, "Pier 6"),
                before(deeper, "the tram"),
                before(absent, "Plan Bramble"),
                before(gone, "a newt called Orin"),
                before(exact, MOTTO),
            ],
        },
        "after_questions": {"timestamp": "2023/03/12 (Sun) 08:10", "position_after_session": 5, "questions": after},
    }


def _tasks(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    renamed = {"task_type": "type", "entity": "target_entities", "question": "question_template"}
    return [{renamed.get(name, name): one[name] for name in one} | {"notes": ""} for one in questions]


OLDER = {
    "ER": "Exact",
    "Agg": "Multi-hop",
    "Tr": "Multiple-update",
    "Del": "Deletion",
    "Cas": "Cascade-D (1-hop)",
    "Abs": "Cascade-U (1-hop)",
}
OLDER_BEFORE = OLDER | {"Del": "Deletion (before delete)", "ER": "Exact (exact recall)"}


def software() -> dict[str, Any]:
    """Root team lead; the weekly report has a rule, the code reviewer none. Older labels, and no `hop` beside them."""
    cascade = asked("Cas", {"weekly_report": "Ines Vogel"}, "Who gets the weekly report?", "Ines Vogel")
    absent = asked("Abs", {"code_reviewer": "Mina Falk"}, "Who is our code reviewer?", "Uncertain: the lead changed")
    gone = asked("Del", {"log_drain": "drain://q7"}, "What is our log drain?", "No, it was removed")
    exact = asked("ER", {"error_log": LOG}, "Recite our error log word for word.", LOG)
    calls = {"pager": "#vole", "rota": "paired", "wiki": "w/91"}
    after = [
        asked(
            "Tr",
            {"package_manager": ["Karn", "Dran", "Synth"]},
            "List our package managers in order.",
            "Karn, Dran, Synth",
        ),
        cascade,
        absent,
        gone,
        asked("Agg", calls, "What are our pager, rota and wiki?", "#vole, paired, w/91"),
        exact,
    ]
    sessions = [
        session(
            0,
            "Part 1a",
            [("pager", "#vole", "Our pager is #vole."), ("package_manager", "Karn", "Our package manager is Karn.")],
        ),
        session(
            1,
            "Part 1b",
            [
                ("rota", "paired", "Our rota is paired."),
                ("package_manager", "Dran", "Update: our package manager is Dran."),
                ("log_drain", "drain://q7", "Our log drain is drain://q7."),
            ],
        ),
        session(
            2,
            "Part 1c",
            [
                ("wiki", "w/91", "Our wiki is w/91."),
                ("package_manager", "Synth", "Our package manager has changed again, it is Synth."),
                ("team_lead", "Ada Orlik", "Our team lead is Ada Orlik."),
            ],
        ),
        session(
            3,
            "Part 2",
            [
                ("code_reviewer", "Mina Falk", "Our code reviewer is Mina Falk, which depends on the team lead."),
                (
                    "weekly_report",
                    "Olof Brandt",
                    "The weekly report goes to Olof Brandt, which depends on the team lead.",
                ),
                ("weekly_report", "Ines Vogel", "If the team lead changes, the weekly report will go to Ines Vogel."),
                ("error_log", LOG, f"Keep our error log word for word:\n{LOG}"),
            ],
        ),
        session(
            4,
            "Change+Delete Event",
            [
                ("team_lead", "Per Lind", "Our team lead is Per Lind."),
                ("log_drain", "drain://q7", "Please delete our log drain drain://q7 from your memory."),
            ],
        ),
        session(5, "", [], ["What does a mutex do?"]),
    ]
    for one in after:
        one["task_type"] = OLDER[one["task_type"]]
    earlier = [before(one, value) for one, value in ((cascade, "Olof Brandt"), (absent, "Mina Falk"))]
    earlier += [before(gone, "drain://q7") | {"task_type": OLDER_BEFORE["Del"]}]
    earlier += [before(exact, LOG) | {"task_type": OLDER_BEFORE["ER"]}]
    return {
        "episode_id": "sw_001",
        "domain": "software_project",
        "root": "team_lead",
        "root_change": {"before": "Ada Orlik", "after": "Per Lind"},
        "chain_entities": ["code_reviewer", "weekly_report"],
        "filler_entities": [],
        "entities": {
            "team_lead": {"before": "Ada Orlik", "after": "Per Lind"},
            "weekly_report": {"before": "Olof Brandt", "after": "Ines Vogel"},
            "code_reviewer": {"before": "Mina Falk", "after": None},
            "log_drain": {"before": "drain://q7", "after": "deleted"},
            "package_manager": {"before": "Karn", "after": None},
            "error_log": {"before": LOG, "after": None},
            **{name: {"before": value, "after": None} for name, value in calls.items()},
        },
        "has_2hop": False,
        "dependency_edges_used": [
            {"source": "team_lead", "target": "weekly_report", "hop": 1, "pattern": "team assignment"},
            {"source": "team_lead", "target": "code_reviewer", "hop": 1, "pattern": "team assignment"},
        ],
        "tasks": _tasks(after),
        "total_sessions": 6,
        "evidence_sessions": 5,
        "filler_sessions": 1,
        "evidence_session_indices": [0, 1, 2, 3, 4],
        "sessions": sessions,
        "before_questions": {"timestamp": sessions[3]["timestamp"], "position_after_session": 3, "questions": earlier},
        "after_questions": {"timestamp": "2023/03/13 (Mon) 10:00", "position_after_session": 5, "questions": after},
    }


def as_text(episodes: Sequence[dict[str, Any]]) -> str:
    """A file of these episodes, as released: two blanks, no sorting, characters as they are."""
    return json.dumps(episodes, ensure_ascii=False, indent=2)


BOTH = (personal(), software())
