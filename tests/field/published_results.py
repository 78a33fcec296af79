"""Result files of every known format, with invented texts, of the questions of the fixture `table`."""

from __future__ import annotations

import json
from typing import Any

from beamlib.data.gold import ABILITIES

NUGGETS = [1.0, 0.5, 0.0]
EVENTS = ["1st: rain", "2nd: snow", "3rd: sun"]


def text(conversation: str, ability: str, number: int) -> str:
    """An invented question."""
    return f"In {conversation}, what was said about {ability.replace('_', ' ')} the {number + 1}. time?"


def asked(conversation: str) -> list[tuple[str, str, int]]:
    """Question, ability and number within it."""
    return [(text(conversation, ability, number), ability, number) for ability in ABILITIES for number in (0, 1)]


def mem0(tier: str = "1M", conversation: str = "1M-1") -> dict[str, Any]:
    """Two cutoffs; the second earns nothing."""
    return {
        "metadata": {"answerer_model": "reader-9", "judge_model": "judge-9", "chat_sizes": [tier]},
        "evaluations": [
            {
                "question_id": f"{tier}_0_q{place}_{ability}",
                "chat_size": tier,
                "question": question,
                "ground_truth_answer": "It was blue.",
                "rubric": ["names a colour", "names blue", "says when"],
                "total_memories_retrieved": 200,
                "cutoff_results": {
                    "top_200": {
                        "score": 0.5,
                        "generated_answer": "Blue, I think.",
                        "memories_evaluated": 200,
                        "nugget_scores": [
                            {"nugget": f"n{n}", "score": s, "reason": "so"} for n, s in enumerate(NUGGETS)
                        ],
                    },
                    "top_10": {
                        "score": 0.0,
                        "generated_answer": "I don't know.",
                        "nugget_scores": [{"nugget": f"n{n}", "score": 0.0, "reason": ""} for n in range(3)],
                    },
                },
            }
            for place, (question, ability, _) in enumerate(asked(conversation))
        ],
    }


def cognee(run: int = 3, conversation: str = "1M-1") -> list[dict[str, Any]]:
    """One run: counts, and a figure of order for event ordering."""
    return [
        {
            "conversation_id": "unknown",
            "question": question,
            "answer": "Blue.",
            "golden_answer": "It was blue.",
            "retrieval_context": "x" * 40,
            "run_idx": run,
            "rubric": ["a", "b", "c"],
            "metrics": {
                "beam_rubric": {
                    "score": 0.5,
                    "reason": "BEAM rubric: 1 full, 1 partial, 1 none out of 3 criteria (score=0.500)",
                },
                "kendall_tau": {"score": 0.25 if ability == "event_ordering" else None, "reason": ""},
            },
        }
        for question, ability, _ in asked(conversation)
    ]


def truememory(conversation: str = "10M-1", benchmark: str = "BEAM-1M") -> dict[str, Any]:
    """Votes, two of three for the first question of each ability. The benchmark's name is wrong, as in their 10M."""
    return {
        "system": "truememory_pro",
        "benchmark": benchmark,
        "answer_model": "reader-8",
        "judge_model": "judge-8",
        "j_score": 50.0,
        "details": [
            {
                "question": question,
                "category": ability,
                "ideal_answer": "It was blue.",
                "generated_answer": "Blue.",
                "correct": number == 0,
                "judge_votes": [number == 0, True, False],
                "num_retrieved": 12,
                "conversation_id": "1",
            }
            for question, ability, number in asked(conversation)
        ],
    }


def amb(split: str = "10m", conversation: str = "10M-1") -> dict[str, Any]:
    """A score per question, or only whether it is correct."""
    return {
        "dataset": "beam",
        "split": split,
        "memory_provider": "remembrall",
        "run_name": "remembrall",
        "mode": "rag",
        "oracle": False,
        "total_queries": 20,
        "accuracy": 0.5,
        "ingestion_time_ms": 1.5,
        "description": None,
        "answer_llm": "reader-7",
        "judge_llm": "judge-7",
        "results": [
            {
                "query_id": f"1_{ability}_{number}",
                "query": question,
                "answer": "Blue.",
                "context": "y" * 80,
                "context_tokens": 20,
                "gold_answers": ["It was blue."],
                "correct": True,
                "score": 0.75 if number else None,
                "meta": {"question_category": ability, "ordering_tested": ["rain"]},
                "retrieve_time_ms": 2.5,
                "judge_reason": "score=0.750",
                "raw_response": None if number else {"hits": []},
                "trajectory": None,
                "category_axes": {"question_type": [ability]},
            }
            for question, ability, number in asked(conversation)
        ],
    }


def past_answers(conversation: str = "1M-1") -> list[dict[str, Any]]:
    """Smart Jelly's answers.jsonl."""
    tier, number = conversation.split("-")
    return [
        {
            "id": f"{tier}/{number}/{ability}/{n}",
            "conversation": int(number),
            "category": ability,
            "index": n,
            "question": question,
            "answer": "1. rain\n2. fog\n3. sun",
            "evidence_tokens": 700,
        }
        for question, ability, n in asked(conversation)
    ]


def past_verdicts(conversation: str = "1M-1") -> list[dict[str, Any]]:
    """Smart Jelly's verdicts.jsonl: nuggets, and for event ordering the two orders."""
    tier, number = conversation.split("-")
    items = [{"raw_score": s * 0.9, "score": s, "judge_reply": json.dumps({"score": s})} for s in NUGGETS]
    order = {
        "method": "event_ordering",
        "reference": EVENTS,
        "answer_order": [EVENTS[0], "fog", EVENTS[2]],
        "score": 0.7,
    }
    return [
        {"id": f"{tier}/{number}/{ability}/{n}"}
        | (order if ability == "event_ordering" else {"method": "rubric", "items": items, "score": 0.5})
        for _, ability, n in asked(conversation)
    ]


def past_results(conversation: str = "1M-1") -> list[dict[str, Any]]:
    """past.dev's results.jsonl: recall, answer and verdicts in a line. The first failed, the next one's judge did."""
    lines: list[dict[str, Any]] = []
    for question, ability, n in asked(conversation):
        items = [{"rubricItem": f"item {k}", "rawScore": s, "score": s, "reason": "so"} for k, s in enumerate(NUGGETS)]
        order = {"method": "event_ordering", "reference": EVENTS, "answer": [EVENTS[1], "fog", EVENTS[0]]}
        judge = order if ability == "event_ordering" else {"method": "rubric", "items": items}
        line = {"questionId": f"1_{ability}_{n}", "conversationId": "1", "category": ability, "question": question}
        line |= {"goldAnswers": ["It was blue."], "recall": {"usedEvidenceTokens": 800, "results": []}}
        lines.append({**line, "answer": "Blue.", "judge": judge, "score": 0.5})
    del lines[0]["answer"], lines[0]["recall"]
    lines[0] |= {"error": "timed out", "judge": {"method": "failed"}, "score": 0.0}
    lines[1]["judge"]["items"][2] = {"rubricItem": "item 2", "score": 0.0, "error": "no reply"}
    return lines


def honcho(conversation: str = "1M-2") -> dict[str, Any]:
    """Honcho's summary: nuggets in any order; the judge of the first question failed."""
    results = [
        {
            "question": question,
            "answer": "It was blue.",
            "actual_response": "Blue.",
            "memory_ability": ability,
            "rubric": ["a", "b", "c"],
            "nugget_scores": None
            if ability == "event_ordering"
            else [{"nugget_index": k, "score": NUGGETS[k - 1], "reasoning": "so"} for k in (2, 1, 3)],
            "score": 0.5,
            "passed": True,
            "reasoning": "",
        }
        for question, ability, _ in asked(conversation)
    ]
    failed = [{"nugget_index": k, "score": 0.0, "reasoning": "Error: no reply"} for k in (1, 2, 3)]
    results[0] |= {"nugget_scores": failed, "score": 0.0}
    conversations = [{"conversation_id": "2", "context_length": "1M", "question_results": results}]
    return {"metadata": {"context_length": "1M"}, "detailed_results": conversations}


def neutral(conversation: str = "1M-1") -> list[dict[str, Any]]:
    """The neutral form with everything that a row may hold; one nugget lies between the steps."""
    header = {"format": "beam-results/1", "system": "Remembrall", "tier": "1M", "gold_in_prompt": "no", "run": 2}
    header |= {"reader": "reader-6", "judge": "judge-6", "judge_sees_rubric": "yes", "licence": "CC0"}
    rows: list[dict[str, Any]] = [
        {
            "question": question,
            "answer": "Blue.",
            "nuggets": [1, 0.5, {"text": "c", "score": 0, "reason": "no"}],
            "score": 0.5,
        }
        for question, _, _ in asked(conversation)
    ]
    rows[0] = {"question": rows[0]["question"], "failed": "no reply"}
    rows[2]["nuggets"] = [0.75, 1, 0]
    rows[4] |= {
        "events": [{"text": "rain", "nugget": 0}, {"text": "fog", "nugget": None}, {"text": "sun", "nugget": 2}]
    }
    rows[5] |= {"events": []}
    return [header, *rows]


def memorybench(conversation: str = "1M-1") -> dict[str, Any]:
    """A report of supermemory's memorybench: a score per question."""
    rows = [
        {"questionId": f"q{n}", "question": question, "score": NUGGETS[n % 3], "hypothesis": "Blue.", "groundTruth": 7}
        for n, (question, _, _) in enumerate(asked(conversation))
    ]
    facts = {"provider": "supermemory", "benchmark": "beam-1m", "judge": "judge-2", "answeringModel": "r"}
    return {**facts, "evaluations": rows}


def remnic(conversation: str = "1M-1") -> dict[str, Any]:
    """A report of remnic: the score of a judge per question."""
    tasks = [
        {
            "question": question,
            "actual": "Blue.",
            "expected": ["It was", "blue"],
            "scores": {"f1": 0.1, "llm_judge": NUGGETS[n % 3]},
            "details": {"ability": ability, "scale": "1M", "rubric": ["a", "b", "c"]},
        }
        for n, (question, ability, _) in enumerate(asked(conversation))
    ]
    return {"meta": {"benchmark": "beam"}, "results": {"tasks": tasks, "aggregates": {}}}


def memmachine(conversation: str = "1M-1") -> dict[str, Any]:
    """MemMachine's results: the scores of all criteria, by ability."""
    rows: dict[str, Any] = {}
    for question, ability, _ in asked(conversation):
        row = {"question": question, "response": "Blue.", "llm_score": 0.5, "rubric": ["a", "b", "c"]}
        rows.setdefault(ability, []).append(
            row | {"criterion_scores": NUGGETS, "criterion_reasonings": ["so", "so"], "ideal_answer": None}
        )
    return rows


def released_code(conversation: str = "1M-1") -> tuple[dict[str, Any], dict[str, Any]]:
    """The released code's answers, and its verdicts, which do not name the questions."""
    answers: dict[str, Any] = {}
    verdicts: dict[str, Any] = {}
    for question, ability, _ in asked(conversation):
        row = {"question": question, "llm_response": "Blue.", "rubric": ["a", "b", "c"]}
        answers.setdefault(ability, []).append(row)
        order = {"precision": 1, "recall": 0.5, "f1": 0.67, "tau_norm": 0.75, "final_score": 0.5}
        replies = [{"score": score, "reason": f"so, in {conversation}"} for score in NUGGETS]
        verdicts.setdefault(ability, []).append(
            {"llm_judge_score": 0.5, "llm_judge_responses": replies, **(order if ability == "event_ordering" else {})}
        )
    return answers, verdicts


def records(conversation: str = "1M-1", **more: Any) -> dict[str, Any]:
    """Questions in two levels with an ability code, and a plain score for each nugget."""
    rows = [
        {"qid": f"1:q{n}", "ability": "XY", "question": question, "ideal_answer": "It was blue.", "answer": "Blue."}
        | {"score": 0.5, "nugget_scores": NUGGETS, "atoms": ["a", "b", "c"], **more}
        for n, (question, _, _) in enumerate(asked(conversation))
    ]
    group = {"conversation_id": "1", "scale": "1M", "results": rows}
    return {"metadata": {"model": "reader-9", "judge_model": "judge-9", "scales": ["1M"]}, "results": [group]}


FILES: dict[str, list[Any]] = {
    "mem0": [mem0()],
    "cognee": [cognee()],
    "truememory": [truememory()],
    "amb": [amb()],
    "past": [past_answers(), past_verdicts()],
    "honcho": [honcho()],
    "memorybench": [memorybench()],
    "remnic": [remnic()],
    "memmachine": [memmachine()],
    "released-code": [*released_code()],
    "beam-results": [neutral()],
    "records": [records()],
}
"""The values of a run's files, by format."""

LINES = ("past", "beam-results")
"""Formats of JSON lines."""


def written(value: Any, lines: bool) -> str:
    """A value as a file has it."""
    return "".join(json.dumps(row) + "\n" for row in value) if lines else json.dumps(value)
