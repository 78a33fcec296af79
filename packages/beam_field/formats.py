"""Read the result files that others publish, each format converted into the neutral form.

A reader keeps what its format holds and ignores fields that it does not know. A field with an impossible value (a score
off the scale, a number for a text) refuses the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from beam_field.results import (
    FORMAT_ADVICE,
    RESULT_FORMAT,
    Header,
    ImportedRun,
    JsonEntry,
    ResultFile,
    ResultRow,
    as_text,
    printable_line,
)
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.evaluate.beam_records import PLAIN_LISTS, Provenance
from beamlib.evaluate.records import checked

_BY_RUBRIC = {"judge_sees_question": "yes", "judge_sees_rubric": "yes"}
_CRITERIA = re.compile(r"(\d{1,4}) full, (\d{1,4}) partial, (\d{1,4}) none out of (\d{1,4}) criteria")


def read_mem0(files: Sequence[ResultFile]) -> list[ImportedRun]:
    """Read mem0's memory-benchmarks, unified results: one run per cutoff."""
    whole = files[0].entry()
    metadata = whole.entry("metadata")
    facts = {"reader": metadata.text("answerer_model"), "judge": metadata.text("judge_model"), **_BY_RUBRIC}
    facts |= {"system": "Mem0", "gold_in_prompt": "no"}
    cutoffs: dict[str, list[ResultRow]] = {}
    for question in whole.entries("evaluations"):
        results = question.entry("cutoff_results")  # none where the question was searched for and not answered
        for cutoff in results.value:
            cutoffs.setdefault(printable_line(cutoff), []).append(_mem0_row(question, results.entry(cutoff)))
    return [
        whole.run(f"mem0-{cutoff}", rows, **facts, context=f"{cutoff[:60].removeprefix('top_')} memories")
        for cutoff, rows in cutoffs.items()
    ]


def _mem0_row(question: JsonEntry, result: JsonEntry) -> ResultRow:
    nuggets = result.entries("nugget_scores")
    memories = {"memories": question.value.get("total_memories_retrieved")}
    # The list of matches leaves out what matched nothing, so it is no alignment; the figure of order is kept.
    return question.row(
        **question.renamed(question="question", tier="chat_size", rubric="rubric", reference="ground_truth_answer"),
        **{**memories, **result.renamed(answer="generated_answer", score="score", memories="memories_evaluated")},
        nuggets=[nugget.renamed(text="nugget", score="score", reason="reason") for nugget in nuggets],
        order=result.entry("event_ordering").value.get("tau_b"),
    )


def read_cognee(files: Sequence[ResultFile]) -> list[ImportedRun]:
    """Read cognee's metrics files: counts per question, one run per `run_idx`."""
    rows: dict[int | None, list[ResultRow]] = {}
    for entry in files[0].lines("item"):
        rows.setdefault(entry.get("run_idx", int), []).append(_cognee_row(entry))
    facts = {"system": "cognee", "gold_in_prompt": "no", "judge_sees_reference": "no", **_BY_RUBRIC}
    return [
        JsonEntry({}, files[0].name).run("cognee" if number is None else f"cognee-run{number}", own, number, **facts)
        for number, own in rows.items()
    ]


def _cognee_row(entry: JsonEntry) -> ResultRow:
    metrics = entry.entry("metrics")
    rubric = metrics.entry("beam_rubric")
    criteria = _CRITERIA.search(rubric.text("reason"))
    full, partial, none, total = map(int, criteria.groups()) if criteria else (0, 0, 0, 0)
    if full + partial + none != total:
        raise UserError(f"{entry.place}: {criteria and criteria[0]!r} does not add up; correct the file.")
    return entry.row(
        **entry.renamed(question="question", answer="answer", rubric="rubric", reference="golden_answer"),
        counts={"full": full, "partial": partial, "none": none} if total else None,
        score=rubric.value.get("score"),
        order=metrics.entry("kendall_tau").value.get("score"),
        context_chars=entry.length("retrieval_context"),
    )


def read_truememory(files: Sequence[ResultFile]) -> list[ImportedRun]:
    """Read TrueMemory's runs: votes on each answer against the reference. A file's name of its tier is ignored."""
    whole = files[0].entry()
    system = whole.text("system") or "TrueMemory"
    rows = [_truememory_row(entry) for entry in whole.entries("details")]
    facts = {"judge_sees_question": "yes", "judge_sees_rubric": "no", "judge_sees_reference": "yes"}
    facts |= {"reader": whole.text("answer_model"), "judge": whole.text("judge_model"), "gold_in_prompt": "no"}
    return [whole.run(system, rows, system=system, **facts)]


def _truememory_row(entry: JsonEntry) -> ResultRow:
    answer, correct = entry.text("generated_answer"), entry.get("correct", bool)
    if correct is None:
        raise UserError(f"{entry.place}: field 'correct' is missing; {FORMAT_ADVICE}")
    names = {"question": "question", "answer": "generated_answer", "votes": "judge_votes"}
    return entry.row(
        **entry.renamed(**names, reference="ideal_answer", memories="num_retrieved"),
        failed=answer if answer.startswith("ERROR: ") else "",
        score=float(correct),
    )


def read_amb(files: Sequence[ResultFile]) -> list[ImportedRun]:
    """Read agent-memory-benchmark's outputs: a score per question."""
    whole = files[0].entry()
    rows = [_amb_row(entry, whole.text("split")) for entry in whole.entries("results")]
    provider, mode = whole.text("memory_provider"), whole.text("mode")
    name = whole.text("run_name") or provider
    facts = {"reader": whole.text("answer_llm"), "judge": whole.text("judge_llm")}
    facts |= {"gold_in_prompt": "yes" if whole.get("oracle", bool) else "unknown"}
    facts |= {"prompt": f"mode {mode}" if mode else ""}
    return [whole.run(f"{name}-{mode}" if mode else name, rows, system=provider or name, **facts)]


def _amb_row(entry: JsonEntry, tier: str) -> ResultRow:
    correct = entry.get("correct", bool)
    score = entry.value.get("score")
    return entry.row(
        **entry.renamed(question="query", answer="answer", context_tokens="context_tokens"),
        **entry.entry("meta").renamed(rubric="rubric"),
        tier=tier,
        score=float(correct) if score is None and correct is not None and entry.text("answer") else score,
        reference=_joined(entry, "gold_answers"),
        context_chars=entry.length("context"),
    )


def _joined(entry: JsonEntry, name: str) -> str:
    value = entry.value.get(name)
    return " | ".join(map(as_text, value if isinstance(value, list) else [value]))


def read_memorybench(files: Sequence[ResultFile]) -> list[ImportedRun]:
    """Read reports of supermemory's memorybench: a score per question."""
    whole = files[0].entry()
    tier = whole.text("benchmark").rpartition("-")[2]
    names = {"question": "question", "answer": "hypothesis", "score": "score", "reference": "groundTruth"}
    rows = [entry.row(**entry.renamed(**names), tier=tier) for entry in whole.entries("evaluations")]
    provider = whole.text("provider") or "memorybench"
    facts = {"reader": whole.text("answeringModel"), "judge": whole.text("judge")}
    return [whole.run(provider, rows, system=provider, **facts)]


def read_remnic(files: Sequence[ResultFile]) -> list[ImportedRun]:
    """Read remnic's reports: the score of a judge per question."""
    whole = files[0].entry()
    rows = [
        task.row(
            **task.renamed(question="question", answer="actual", reference="expected"),
            **task.entry("scores").renamed(score="llm_judge"),
            **task.entry("details").renamed(rubric="rubric", tier="scale"),
        )
        for task in whole.entry("results").entries("tasks")
    ]
    return [whole.run("remnic", rows, system="remnic")]


def read_by_ability(files: Sequence[ResultFile]) -> list[ImportedRun]:
    """Read MemMachine's results and the released code's own: lists of questions by ability.

    The released code writes answers to one file and verdicts, without the questions, to `evaluation-<name>` beside it:
    both are needed, and are joined by place.
    """
    answers, verdicts = _questions_of(files), _questions_of(files, "llm_judge_responses")
    if not answers:
        raise UserError(
            f"{files[0].name}: verdicts without questions; give the file of answers as well, whose name lacks "
            "'evaluation-'."
        )
    if verdicts and [place for place, _ in verdicts] != [place for place, _ in answers]:
        raise UserError(f"{files[0].name}: answers and verdicts of other questions than one another; give one run's.")
    pairs = zip(answers, verdicts or answers, strict=True)
    rows = [
        _row_by_ability(JsonEntry({**answer.value, **verdict.value}, verdict.place))
        for (_, answer), (_, verdict) in pairs
    ]
    memmachine = any("criterion_scores" in entry.value for _, entry in answers)
    label = "memmachine" if memmachine else Path(files[0].name).stem
    facts = {"system": "MemMachine"} if memmachine else {"judge_sees_question": "no"}
    return [JsonEntry({}, files[0].name).run(label, rows, judge_sees_rubric="yes", gold_in_prompt="no", **facts)]


def _questions_of(files: Sequence[ResultFile], field: str = "question") -> list[tuple[tuple[str, int], JsonEntry]]:
    """Return the questions that have a field, by ability and place."""
    return [
        ((ability, number), entry)
        for file in files
        for ability in file.entry().value
        for number, entry in enumerate(file.entry().entries(ability))
        if field in entry.value
    ]


def _row_by_ability(entry: JsonEntry) -> ResultRow:
    answer = entry.renamed(answer="llm_response") or entry.renamed(answer="response")
    scores = entry.get("criterion_scores", list) or []
    reasons = entry.get("criterion_reasonings", list) or []
    nuggets: list[dict[str, Any]] = [
        {"score": score, "reason": reason} for score, reason in zip_longest(scores, reasons[: len(scores)])
    ]
    nuggets = nuggets or [
        reply.renamed(score="score", reason="reason") for reply in entry.entries("llm_judge_responses")
    ]
    ordering = entry.value if "tau_norm" in entry.value else entry.entry("event_ordering").value
    scored = next((entry.value[name] for name in ("llm_judge_score", "llm_score") if name in entry.value), None)
    return entry.row(
        **entry.renamed(question="question", rubric="rubric", reference="ideal_answer"),
        **answer,
        nuggets=[{"score": None, **nugget} for nugget in nuggets],
        score=ordering.get("final_score", scored),
        order=ordering.get("tau_norm"),
    )


def read_honcho(files: Sequence[ResultFile]) -> list[ImportedRun]:
    """Read Honcho's benchmark summaries: a verdict per nugget, all of a question from one call."""
    file = files[0]
    whole = isinstance(file.value, dict)
    rows = [
        _honcho_row(entry, conversation.text("context_length"))
        for conversation in (file.entry().entries("detailed_results") if whole else file.lines("item"))
        for entry in conversation.entries("question_results")
    ]
    return [JsonEntry({}, file.name).run("honcho", rows, system="Honcho", **_BY_RUBRIC)]


def _honcho_row(entry: JsonEntry, tier: str) -> ResultRow:
    nuggets = entry.entries("nugget_scores")
    numbers = [nugget.get("nugget_index", int) for nugget in nuggets]
    if None not in numbers:
        nuggets = [nuggets[place] for place in sorted(range(len(nuggets)), key=lambda place: numbers[place] or 0)]
    rubric = entry.get("rubric", list) or []
    texts = rubric if len(rubric) == len(nuggets) else [""] * len(nuggets)
    scores: list[dict[str, Any]] = []
    for text, nugget in zip(texts, nuggets, strict=True):
        verdict = {"text": text, **nugget.renamed(score="score", reason="reasoning")}
        # A judge that failed is recorded as a score of 0 with the error as its reasoning.
        failed = nugget.text("reasoning").startswith("Error: ") and verdict.get("score") == 0
        scores.append({**verdict, "score": None} if failed else verdict)
    return entry.row(
        **entry.renamed(question="question", answer="actual_response", score="score", reference="answer"),
        tier=tier,
        nuggets=scores,
        order=entry.value.get("score") if entry.text("memory_ability") == "event_ordering" else None,
        rubric=rubric,
    )


def read_past(files: Sequence[ResultFile]) -> list[ImportedRun]:
    """Read past.dev's results.jsonl, or the answers.jsonl and verdicts.jsonl of Smart Jelly, joined by id."""
    lines: dict[str, dict[str, Any]] = {}
    names = ", ".join(file.name for file in files)
    for file in files:
        for line in file.lines():
            key = line.value.get("questionId", line.value.get("id"))
            if not isinstance(key, str) or not key:
                raise UserError(f"{line.place} has no `id` or `questionId`; {FORMAT_ADVICE}")
            known = lines.setdefault(key, {})
            if again := (known.keys() & line.value.keys()) - {"id", "questionId", "category", "conversation", "index"}:
                raise UserError(f"{file.name}: {key!r} has {min(again)!r} twice; give the files of one run.")
            known |= line.value
    rows = [_past_row(key, JsonEntry(line, f"{names}: {key}")) for key, line in lines.items()]
    first = next(iter(lines.values()), {})
    facts = {"judge_sees_rubric": "yes"}
    if "recall" in first or "goldAnswers" in first:  # past.dev's prompts always hold parts of the gold
        facts |= {"system": "past.dev", "judge_sees_question": "yes", "gold_in_prompt": "yes"}
    return [JsonEntry({}, names).run("past", rows, **facts)]


def _past_row(key: str, line: JsonEntry) -> ResultRow:
    if not line.text("question"):
        raise UserError(f"{line.place}: its verdict has no question; give the file of answers with that of verdicts.")
    apart = "judge" not in line.value  # Smart Jelly: the fields of the verdict are those of the line
    judge = line if apart else line.entry("judge")
    ordering = judge.text("method") == "event_ordering"
    nuggets = []
    for item in judge.entries("items"):
        error = item.text("error")
        verdict = item.renamed(text="rubricItem", score="score", reason="reason", reply="judge_reply")
        nuggets.append({**verdict, "score": None, "reason": error} if error else verdict)
    tokens = line.entry("recall").value.get("usedEvidenceTokens")
    known = type(tokens) is int and 0 <= tokens < 2**53
    return line.row(
        **{"context_tokens": tokens if known else None, **line.renamed(context_tokens="evidence_tokens")},
        **line.renamed(question="question", answer="answer", score="score"),
        **judge.renamed(rubric="reference"),
        tier=key.partition("/")[0] if "/" in key else "",
        failed=line.text("error") or ("the source says so" if judge.text("method") == "failed" else ""),
        nuggets=nuggets,
        order=line.value.get("score") if ordering else None,
        events=_past_events(judge, "answer_order" if apart or "answer" not in judge.value else "answer")
        if ordering
        else None,
        reference=_joined(line, "goldAnswers"),
    )


def _past_events(judge: JsonEntry, name: str) -> list[dict[str, Any]]:
    """Match the answer's items to the reference: a matched item has the text of its topic, any other its own."""
    nuggets, items = (list(map(as_text, judge.get(field, list) or [])) for field in ("reference", name))
    free = {text: number for number, text in reversed([*enumerate(nuggets)])}
    return [{"text": text, "nugget": free.pop(text, None)} for text in items]


def _is_whole(file: ResultFile) -> bool:
    """Return whether a file of past.dev's kind has both answers and verdicts."""
    first = next((line.value for line in file.lines()), {})
    return "question" in first and ("judge" in first or "method" in first)


def group_files(form: str, files: Sequence[ResultFile]) -> list[list[ResultFile]]:
    """Group files by run: one file each, but answers and verdicts in separate files belong together."""
    if form == "released-code":
        return _with_verdicts(files)
    apart = [file for file in files if form == "past" and not _is_whole(file)]
    return [*([apart] if apart else []), *([file] for file in files if file not in apart)]


def _with_verdicts(files: Sequence[ResultFile]) -> list[list[ResultFile]]:
    """Group files of answers with those of their verdicts, by name or, where names differ, by order.

    Files of one name are a run: the released code writes one per conversation.
    """
    verdicts = [file for file in files if not _questions_of([file])]
    answers = [file for file in files if file not in verdicts]
    by_name = {Path(file.name).parent / Path(file.name).name.removeprefix("evaluation-"): file for file in verdicts}
    if not answers or not by_name.keys() & {Path(file.name) for file in answers}:
        by_name = dict(zip((Path(file.name) for file in answers), verdicts, strict=False))
    runs: dict[str, list[ResultFile]] = {}
    for file in answers:
        own = runs.setdefault(Path(file.name).name, [])
        own += [file, *filter(None, [by_name.pop(Path(file.name), None)])]
    return [*runs.values(), *([file] for file in by_name.values())] or [[file] for file in verdicts]


def read_neutral(files: Sequence[ResultFile]) -> list[ImportedRun]:
    """Read a file in the neutral form."""
    advice = "see docs/publishing-results.md."
    first, *rest = files[0].lines()
    header = checked(Header, first.value, f"{first.place}: ", advice)
    rows = [checked(ResultRow, line.value, f"{line.place}: ", advice) for line in rest]
    rows = [row if row.tier else row.model_copy(update={"tier": header.tier}) for row in rows]
    label = header.system if header.run is None else f"{header.system}-run{header.run}"
    return [first.run(label, rows, header.run, **header.model_dump(include=set(Provenance.model_fields)))]


_QUESTION = ("question", "query", "question_text")
_ANSWER = (
    "ai_answer", "generated_answer", "model_answer", "predicted_answer", "actual_response", "llm_response",
    "hypothesis", "prediction", "response", "actual", "output", "answer",
)  # fmt: skip
"""Names of an answer. `answer` comes last: beside another of them it is the reference."""
_REFERENCE = (
    "ideal_answer", "gold_answer", "golden_answer", "ground_truth", "ground_truth_answer", "reference",
    "reference_answer", "expected_answer", "expected", "gold",
)  # fmt: skip
_NUGGETS = ("nugget_scores", "nuggets", "rubric_scores", "criterion_scores")
_RUBRIC = ("rubric", "atoms", "nugget_texts", "criteria", "nuggets")
_SCORE = ("score", "nugget_mean", "nugget_score")
_TIER = ("scale", "tier", "chat_size", "split", "size")
_READER_NAME = ("answerer", "answerer_model", "reader", "answer_model", "answer_llm", "model")
_JUDGE_NAME = ("judge", "judge_model", "judge_llm")
_OF_WORDS = re.compile(r"match|substring|overlap|f1|bleu|rouge", re.IGNORECASE)
"""Names of fields beside a score that counts words: it is on another scale than a judge's."""
_NAMED_TIERS = {"128K": "100K", "1000K": "1M", "10000K": "10M"}
_DEEPEST = 4


def read_records(files: Sequence[ResultFile]) -> list[ImportedRun]:
    """Read questions with answers, and scores where there are any, in lists at any depth of a file.

    A record has the text of its question and an answer. What it lacks of tier and judge stands on what encloses it.
    """
    file = files[0]
    records = list(_records(file.value, {}, file.name))
    facts = _facts(file.value) | _facts(next((entry.value for entry in records), {}))
    rows = [_record_row(entry, judged="judge" in facts) for entry in records]
    return [JsonEntry({}, file.name).run(facts.pop("system", "") or Path(file.name).name.split(".")[0], rows, **facts)]


def _records(value: Any, around: Mapping[str, Any], place: str, depth: int = 0) -> Iterator[JsonEntry]:
    """Yield the records below a value, with the tier of what encloses them."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _records(item, around, f"{place}[{number}]", depth)
    elif isinstance(value, dict):
        if _first_name(value, _QUESTION) and _first_name(value, _ANSWER):
            yield JsonEntry({**around, **value}, place)
        elif depth < _DEEPEST:
            tier = {name: value[name] for name in _TIER if isinstance(value.get(name), str)}
            for name, item in value.items():
                if isinstance(item, list | dict):
                    yield from _records(item, {**around, **tier}, f"{place}: {name}", depth + 1)


def _first_name(value: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the first of the names whose field is a text."""
    return next((name for name in names if isinstance(value.get(name), str)), "")


def _facts(value: Any) -> dict[str, str]:
    """Return who answered and who judged, as an object or one of the objects in it says."""
    places = [value, *value.values()] if isinstance(value, dict) else []
    facts: dict[str, str] = {}
    for place in (place for place in places if isinstance(place, dict)):
        for ours, names in (("reader", _READER_NAME), ("judge", _JUDGE_NAME), ("system", ("system", "memory_system"))):
            if name := _first_name(place, names):
                facts.setdefault(ours, place[name])
    return facts


def _record_row(entry: JsonEntry, *, judged: bool) -> ResultRow:
    value = entry.value
    names = [name for name in _ANSWER if isinstance(value.get(name), str)]
    reference = _first_name(value, _REFERENCE) or ("answer" if len(names) > 1 and "answer" in names else "")
    lists = {name: value[name] for name in (*_NUGGETS, *_RUBRIC) if isinstance(value.get(name), list) and value[name]}
    for name in _NUGGETS:
        if isinstance(value.get(name), dict):  # the score of each nugget by its text
            lists[name] = [{"nugget": text, "score": score} for text, score in value[name].items()]
    # A score written as a text is refused with the row, not lost.
    numbers = (
        lists[name]
        for name in _NUGGETS
        if name in lists and (name not in _RUBRIC or not isinstance(lists[name][0], str))
    )
    scored: list[Any] = next(numbers, [])
    rubric: list[Any] = next((lists[name] for name in _RUBRIC if name in lists and isinstance(lists[name][0], str)), [])
    texts = rubric if len(rubric) == len(scored) else [""] * len(scored)
    nuggets = [
        {"text": text, **JsonEntry(nugget, entry.place).renamed(text="nugget", score="score", reason="reason")}
        if isinstance(nugget, dict)
        else {"text": text, "score": nugget}
        for text, nugget in zip(texts, scored, strict=True)
    ]
    score = next((value[name] for name in _SCORE if value.get(name) is not None), None)
    tier = value.get(_first_name(value, _TIER), "")
    return entry.row(
        question=value[_first_name(value, _QUESTION)],
        answer=value[names[0]],
        tier=_NAMED_TIERS.get(tier.strip().upper(), tier),
        reference=value.get(reference, ""),
        failed=entry.text("error") if isinstance(value.get("error"), str) and not value[names[0]] else "",
        nuggets=[{"score": None, **nugget} for nugget in nuggets],
        score=None if not judged and any(map(_OF_WORDS.search, value)) else score,
        rubric=rubric,
    )


READERS: Mapping[str, Callable[[Sequence[ResultFile]], list[ImportedRun]]] = {  # each reads a group of `group_files`
    "mem0": read_mem0,
    "cognee": read_cognee,
    "truememory": read_truememory,
    "amb": read_amb,
    "past": read_past,
    "honcho": read_honcho,
    "memorybench": read_memorybench,
    "remnic": read_remnic,
    "memmachine": read_by_ability,
    "released-code": read_by_ability,
    "beam-results": read_neutral,
    PLAIN_LISTS: read_records,
}

_MARKS: Sequence[tuple[str, Sequence[str]]] = (
    ("mem0", ("evaluations.cutoff_results", "evaluations.question")),
    ("memorybench", ("evaluations.question", "evaluations.hypothesis")),
    ("truememory", ("details.question", "details.correct")),
    ("honcho", ("detailed_results.question_results",)),
    ("amb", ("results", "memory_provider")),
    ("remnic", ("results.tasks", "meta")),
    ("beam-results", ("format", "system")),
    ("cognee", ("question", "metrics")),
    ("honcho", ("question_results", "context_length")),
    ("past", ("questionId",)),
    ("past", ("id", "method")),
    ("past", ("id", "question", "answer")),
    ("memmachine", ("*.question", "*.criterion_scores")),
    ("released-code", ("*.llm_judge_responses",)),
    ("released-code", ("*.question", "*.llm_response")),
)
"""Fields of a file's object, or of its first one, that identify a format; the first format with all of them counts.

After a dot: a field of the object, or of the first in the list, that is there; `*` is an ability.
"""


def _has(value: Any, field: str) -> bool:
    outer, _, inner = field.partition(".")
    if outer == "*":
        return isinstance(value, dict) and any(_has(value, f"{ability}.{inner}") for ability in ABILITIES)
    if not isinstance(value, dict) or outer not in value:
        return False
    within = value[outer][0] if isinstance(value[outer], list) and value[outer] else value[outer]
    return not inner or _has(within, inner)


def recognise_format(file: ResultFile) -> str:
    """Name the format of a file by its fields; raise `UserError` if none matches."""
    first = file.value[0] if isinstance(file.value, list) and file.value else file.value
    for name, fields in _MARKS:
        if all(_has(first, field) for field in fields) and (name != "beam-results" or first["format"] == RESULT_FORMAT):
            return name
    if next(_records(file.value, {}, file.name), None):
        return PLAIN_LISTS
    raise UserError(
        f"{file.name}: not one of the known formats ({', '.join(READERS)}); name one with --format, or write the "
        "results in beam-results/1 (docs/publishing-results.md)."
    )
