"""The offline author behind rendered prompts: what a served model would be sent, answered, and spoilt on request.

A server gets text alone. Which prompt file it was and what stood in its variables is told from the fixed parts of the
file; an `OfflineAuthor` then answers. Faults are drawn from a seed and the prompt's text, so a run can be repeated.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

from beam_generate.authors import generation_prompts
from beam_generate.shapes import Story
from beam_offline.author.author import OfflineAuthor
from beamlib.llm.endpoints import Author
from beamlib.llm.model import Prompt
from beamlib.llm.prompts import prompt_file
from scripted_server import Answer, body_text

_SLOT = re.compile(r"\{\{ *(?P<name>\w+)(?: or \"(?P<default>[^\"]*)\")? *\}\}")


@dataclass(frozen=True)
class Form:
    """A prompt file turned round: `pattern` finds its variables, `defaults` are what empty ones are shown as."""

    id: str
    start: str
    pattern: re.Pattern[str]
    defaults: Mapping[str, str]


@cache
def forms() -> tuple[Form, ...]:
    """The forms of all prompts of generation, those with the longest fixed beginning first."""
    found = []
    for name in generation_prompts():
        text = re.sub(
            r"\{% *-?.*\{%-? *endif *%\}", "{{ by_ability }}", prompt_file(name).parts[-1][1], flags=re.DOTALL
        )
        pattern, defaults, seen, last = "", {}, set(), 0
        for slot in _SLOT.finditer(text):
            pattern += re.escape(text[last : slot.start()])
            pattern += f"(?P={slot['name']})" if slot["name"] in seen else f"(?P<{slot['name']}>.*?)"
            seen.add(slot["name"])
            if slot["default"] is not None:
                defaults[slot["name"]] = slot["default"]
            last = slot.end()
        pattern += re.escape(text[last:])
        if not text[last:]:  # a variable at the very end: what is asked again follows after an empty line
            pattern += r"(?=\n\n|\Z)"
        start = text[: next(_SLOT.finditer(text)).start()]
        found.append(Form(name, start, re.compile(pattern, re.DOTALL), defaults))
    return tuple(sorted(found, key=lambda form: -len(form.start)))


def recognise(text: str) -> tuple[Prompt, str]:
    """The prompt that was rendered to `text`, and the complaint behind it."""
    for form in forms():
        if text.startswith(form.start) and (match := form.pattern.match(text)):
            told = {
                k: "" if v == form.defaults.get(k) else v for k, v in match.groupdict().items() if k != "by_ability"
            }
            return Prompt(form.id, told), text[match.end() :].strip()
    raise ValueError(f"no prompt file begins like {text[:80]!r}")


Spoil = Callable[[str, str, random.Random], str]


def _is_json(prompt: str) -> bool:
    return prompt.startswith(("seeds_", "candidates_", "probe_", "titles", "special_bullets"))


def _is_plan(prompt: str) -> bool:
    return prompt in (
        "plan_general",
        "plan_coding",
        "plan_math",
        "plan_sequential",
        "plan_hierarchical",
    )


def _is_questions(prompt: str) -> bool:
    return prompt.startswith("questions_")


def _is_message(prompt: str) -> bool:
    return prompt in ("assistant_answer", "user_reply", "user_followup")


def _is_decision(prompt: str) -> bool:
    return prompt.startswith("detect_")


def _batches(reply: str) -> list[str]:
    return re.split(r"(?m)^(?=BATCH \d+ PLAN)", reply)[1:]


def _some_batches_missing(reply: str, rng: random.Random) -> str:
    *parts, _ = _batches(reply)  # the last one always
    return "\n".join(part for part in parts if rng.random() > 0.3) or parts[0]


def _extra_bullets(reply: str, rng: random.Random) -> str:
    extra = "\n".join(f"• **Extra:Area:** Something further happened, number {n}." for n in range(60))
    return "\n".join(f"{part.rstrip()}\n{extra}\n" if rng.random() < 0.5 else part for part in _batches(reply))


def _wrong_numbers(reply: str, rng: random.Random) -> str:
    return re.sub(r"BATCH (\d+) PLAN", lambda found: f"BATCH {int(found[1]) + rng.randrange(0, 4)} PLAN", reply)


def _doubled(reply: str, rng: random.Random) -> str:
    return "\n".join(part * (1 + (rng.random() < 0.5)) for part in _batches(reply))


def _odd_days(reply: str, rng: random.Random) -> str:
    days = ("March 3, 1999", "June 40, 2024", "soon", "")
    return re.sub(
        r"(\*\*Time Anchor:\*\*).*", lambda m: f"{m[1]} {rng.choice(days)}" if rng.random() < 0.5 else m[0], reply
    )


def _links(change: Callable[[str, random.Random], str]) -> Callable[[str, random.Random], str]:
    return lambda reply, rng: re.sub(
        r" ->-> ([0-9]+)", lambda m: change(m[1], rng) if rng.random() < 0.5 else m[0], reply
    )


def _pieces(reply: str) -> tuple[str, list[str]]:
    mark = "\n-----\n" if "\n-----\n" in reply else "\n"
    return mark, reply.split(mark)


def _more(reply: str, rng: random.Random) -> str:
    mark, parts = _pieces(reply)
    return mark.join([*parts, *(f"And what about thing {n} of {rng.random()}? ->-> 2" for n in range(9))])


def _fewer(reply: str, rng: random.Random) -> str:
    mark, parts = _pieces(reply)
    return mark.join(parts[: len(parts) // 3])


def _empty_lines(reply: str, rng: random.Random) -> str:
    mark, parts = _pieces(reply)
    return mark.join(part for one in parts for part in (one, "", "   "))


def _every_value(change: Callable[[str, Any, random.Random], Any]) -> Callable[[str, random.Random], str]:
    def walk(name: str, value: Any, rng: random.Random) -> Any:
        if isinstance(value, dict):
            return {key: walk(key, change(key, part, rng), rng) for key, part in value.items()}
        return [walk(name, part, rng) for part in value] if isinstance(value, list) else value

    def spoil(reply: str, rng: random.Random) -> str:
        try:
            return json.dumps(walk("", json.loads(reply), rng))
        except ValueError:
            return reply

    return spoil


def _unknown(name: str, value: Any, rng: random.Random) -> Any:
    if name not in ("bullets", "original", "updated", "first", "second") or rng.random() < 0.5:
        return value
    odd = rng.choice(["0.99.99", "zero", 7, None, [[1, 2]], {"a": 1}])
    return [odd, *value] if isinstance(value, list) else odd


def _evidence(name: str, value: Any, rng: random.Random) -> Any:
    if name not in ("evidence", "source_chat_ids"):
        return value
    odd: list[Any] = [
        [],
        {},
        None,
        "none",
        ["12"],
        [[3, [4]]],
        [10**9],
        [-5],
        [True],
        [1.5],
        {"first": "x"},
        [str(value)],
    ]
    return rng.choice(odd)


def _types(name: str, value: Any, rng: random.Random) -> Any:
    odd: list[Any] = [None, 7, 2.5, True, [], {}, "", [None, 3], {"a": [1]}, [["x"]]]
    return rng.choice(odd) if rng.random() < 0.2 else value


def _listed(reply: str, rng: random.Random) -> str:
    return rng.choice(['["a", 3, null]', '"a text"', "[[]]", "{}", "[]", "null", "[1, 2", '{"items": "none"}'])


SPOILS: dict[str, tuple[Callable[[str], bool], Callable[[str, random.Random], str]]] = {
    "prose": (
        lambda p: _is_json(p) or _is_plan(p) or _is_questions(p) or p.startswith("narratives"),
        lambda reply, rng: f"Sure! Here is what you asked for:\n\n{reply}\n\nI hope this helps. Let me know!",
    ),
    "fences": (
        lambda p: _is_json(p) or _is_plan(p) or _is_questions(p) or p.startswith("narratives"),
        lambda reply, rng: f"```{rng.choice(['', 'json', 'text'])}\n{reply}\n```",
    ),
    "missing": (_is_plan, _some_batches_missing),
    "extra": (_is_plan, _extra_bullets),
    "numbers": (_is_plan, _wrong_numbers),
    "doubled": (_is_plan, _doubled),
    "days": (_is_plan, _odd_days),
    "no link": (_is_questions, _links(lambda link, rng: "")),
    "far link": (_is_questions, _links(lambda link, rng: f" ->-> {rng.choice(['99', '0', '-1', 'x', '3, 99'])}")),
    "too many": (_is_questions, _more),
    "too few": (_is_questions, _fewer),
    "empty lines": (_is_questions, _empty_lines),
    "empty": (lambda p: True, lambda reply, rng: rng.choice(["", " \n\n", "```\n```"])),
    "arrows": (_is_message, lambda reply, rng: f"{reply} ->-> {rng.choice(['3', 'N/A', '2,7', ''])}"),
    "tags": (_is_message, lambda reply, rng: reply),  # as below
    "label": (_is_message, lambda reply, rng: f"**Assistant:** {reply}"),
    "remark": (lambda p: p == "assistant_answer", lambda reply, rng: f"{reply} That contradicts what you told me."),
    "detector": (
        _is_decision,
        lambda reply, rng: rng.choice(["Yes, definitely.", "Unclear", "I think so", "YES", "**no**", "maybe yes"]),
    ),
    "cut": (lambda p: True, lambda reply, rng: reply[: rng.randrange(len(reply) + 1)]),
    "wrong list": (_is_json, _listed),
    "types": (_is_json, _every_value(_types)),
    "refs": (lambda p: p.startswith("candidates_"), _every_value(_unknown)),
    "evidence": (lambda p: p.startswith("probe_"), _every_value(_evidence)),
    "refusal": (lambda p: True, lambda reply, rng: "I'm sorry, but I can't help with that."),
    "instructions": (_is_message, lambda reply, rng: reply),  # see below: it needs the prompt's own text
}


class ServedAuthor:
    """A `reply` for `ScriptedServer`: the offline authors of `stories`, spoilt at `rate` (0 to 1) by `kinds`.

    `calls` counts replies by prompt id, `spoilt` by kind.
    """

    def __init__(self, stories: Sequence[Story], kinds: Sequence[str] = (), rate: float = 0.0, seed: int = 0) -> None:
        self.authors = [OfflineAuthor(story) for story in stories]
        self.kinds, self.rate, self.seed = tuple(kinds), rate, seed
        self.calls: Counter[str] = Counter()
        self.spoilt: Counter[str] = Counter()

    def __call__(self, body: dict[str, Any]) -> str | Answer:
        text = body_text(body)
        prompt, _ = recognise(text)
        self.calls[prompt.id] += 1
        reply = _at_once(self._author(prompt), prompt)
        rng = random.Random(f"{self.seed} {hashlib.sha256(text.encode()).hexdigest()}")
        fitting = [kind for kind in self.kinds if SPOILS[kind][0](prompt.id)]
        if not fitting or rng.random() >= self.rate:
            return reply
        kind = rng.choice(fitting)
        self.spoilt[kind] += 1
        if kind == "tags":
            tag = re.findall(r"^<(\w+_\w+)>$", text, re.MULTILINE)[-1]
            return f"<{tag}>\n{reply}\n</{tag}>"
        if kind == "instructions":
            lines = [line for line in text.splitlines() if line.startswith("- ")]
            return f"{reply}\n\n{rng.choice(lines) if lines else text[:300]}"
        return SPOILS[kind][1](reply, rng)

    def _author(self, prompt: Prompt) -> OfflineAuthor:
        if len(self.authors) == 1:
            return self.authors[0]
        everything = "\n".join(prompt.variables.values())
        for author in self.authors:
            story = author.story
            if story.topic.title in prompt.variables.get("topic", "") or story.profile.name in everything:
                return author
            if any(entry.text in everything for entries in author.scenario.entries.values() for entry in entries):
                return author
        return self.authors[0]


def _at_once(author: OfflineAuthor, prompt: Prompt) -> str:
    """The author's reply: it never waits for anything, so the first step of its coroutine is the last."""
    coroutine = author.complete(prompt)
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return str(ended.value.text)
    except IndexError:  # a spoilt "yes" asks for a message that the author's script does not have
        return f"What else should I know before I go on, with the {len(prompt.variables['answer'])} things you name?"
    raise AssertionError("the offline author waited")


def models_file(path: Path, base_url: str, concurrency: int = 16, **fields: Any) -> Path:
    """A models file whose every role is at `base_url`."""
    endpoint = {
        "model": "scripted", "base_url": base_url, "context_window": 131_072, "max_output_tokens": 30_000,
        "concurrency": concurrency, "timeout": 20.0, "patience": 20.0, "input_price": 1.0, "output_price": 2.0,
        **fields,
    }  # fmt: skip
    roles: dict[str, Any] = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
    path.write_text(
        json.dumps({"readers": {"scripted": endpoint}, **roles, "authors": dict.fromkeys(get_args(Author), endpoint)})
    )
    return path
