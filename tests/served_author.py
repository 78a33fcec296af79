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
from steady_replies import steady_reply

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


READERS = "You help a user, and you have a single source for it"
"""How the prompt of readers begins."""


def recognise(text: str) -> tuple[Prompt, str]:
    """The prompt that was rendered to `text`, and the complaint behind it."""
    for form in forms():
        if text.startswith(form.start) and (match := form.pattern.match(text)):
            told = {
                k: "" if v == form.defaults.get(k) else v for k, v in match.groupdict().items() if k != "by_ability"
            }
            return Prompt(form.id, told), text[match.end() :].strip()
    raise ValueError(f"no prompt file begins like {text[:80]!r}")


Spoil = Callable[[str, random.Random], str]
_JSON = "seeds_|candidates_|probe_|titles|special_bullets"
_PLAN = "plan_(general|coding|math|sequential|hierarchical)"
_MESSAGE = "assistant_answer|user_reply|user_followup"


def _some_batches_missing(reply: str, rng: random.Random) -> str:
    *parts, _ = re.split(r"(?m)^(?=BATCH \d+ PLAN)", reply)[1:]  # the last one always
    return "\n".join(part for part in parts if rng.random() > 0.3) or parts[0]


def _more_or_fewer(reply: str, rng: random.Random) -> str:
    mark = "\n-----\n" if "\n-----\n" in reply else "\n"
    parts = reply.split(mark)
    more = [f"And what about thing {n} of {rng.random()}? ->-> 2" for n in range(9)]
    return mark.join(parts[: len(parts) // 3] if rng.random() < 0.5 else [*parts, *more])


def _every_value(change: Callable[[str, Any, random.Random], Any]) -> Spoil:
    def walk(name: str, value: Any, rng: random.Random) -> Any:
        if isinstance(value, dict):
            return {key: walk(key, change(key, part, rng), rng) for key, part in value.items()}
        return [walk(name, part, rng) for part in value] if isinstance(value, list) else value

    return lambda reply, rng: json.dumps(walk("", json.loads(reply), rng))


def _one_of(*texts: str) -> Spoil:
    return lambda reply, rng: rng.choice(texts)


def _links(*links: str) -> Spoil:
    return lambda reply, rng: re.sub(
        r" ->-> [0-9]+", lambda link: rng.choice(links) if rng.random() < 0.5 else link[0], reply
    )


def _evidence(name: str, value: Any, rng: random.Random) -> Any:
    odd = [[], {}, None, "none", ["12"], [[3, [4]]], [10**9], [-5], [True], [1.5], {"first": "x"}]
    return rng.choice(odd) if name == "evidence" else value


def _references(name: str, value: Any, rng: random.Random) -> Any:
    if name not in ("bullets", "original", "updated", "first", "second") or rng.random() < 0.5:
        return value
    odd = rng.choice(["0.99.99", "zero", 7, None, [[1, 2]], {"a": 1}])
    return [odd, *value] if isinstance(value, list) else odd


def _types(name: str, value: Any, rng: random.Random) -> Any:
    return rng.choice([None, 7, 2.5, True, [], {}, "", [None, 3], {"a": [1]}]) if rng.random() < 0.2 else value


SPOILS: Mapping[str, tuple[str, Spoil]] = {
    "prose": (
        f"{_JSON}|{_PLAN}|questions_|narratives",
        lambda reply, rng: f"Here is what you asked for:\n\n{reply}\n\nOk?",
    ),
    "fences": (f"{_JSON}|{_PLAN}|questions_|narratives", lambda reply, rng: f"```text\n{reply}\n```"),
    "missing": (_PLAN, _some_batches_missing),
    "links": ("questions_", _links("", " ->-> 99", " ->-> -1", " ->-> x", " ->-> 3, 99")),
    "too many or few": ("questions_", _more_or_fewer),
    "empty": ("", _one_of("", " \n\n", "```\n```")),
    "arrows": (_MESSAGE, lambda reply, rng: f"{reply} ->-> {rng.choice(['3', 'N/A', '2,7', ''])}"),
    "label": (_MESSAGE, lambda reply, rng: f"**Assistant:** {reply}"),
    "remark": ("assistant_answer", lambda reply, rng: f"{reply} That contradicts what you told me."),
    "detector": ("detect_", _one_of("Yes, definitely.", "Unclear", "I think so", "YES", "**no**", "maybe yes")),
    "cut": ("", lambda reply, rng: reply[: rng.randrange(len(reply) + 1)]),
    "wrong list": (_JSON, _one_of('["a", 3, null]', '"a text"', "[[]]", "{}", "null", "[1, 2", '{"items": "none"}')),
    "types": (_JSON, _every_value(_types)),
    "refs": ("candidates_", _every_value(_references)),
    "evidence": ("probe_", _every_value(_evidence)),
    "refusal": ("", _one_of("I'm sorry, but I can't help with that.")),
}
"""Faults of a reply: a pattern of the prompts that can have each (all without one), and what it does to the reply."""


class ServedAuthor:
    """A `reply` for `ScriptedServer`: the offline author of `story`, spoilt at `rate` (0 to 1) by `kinds`.

    `calls` counts replies by prompt id, `spoilt` by kind.
    """

    def __init__(self, story: Story, kinds: Sequence[str] = (), rate: float = 0.0, seed: int = 0) -> None:
        self.author = OfflineAuthor(story)
        self.kinds, self.rate, self.seed = tuple(kinds), rate, seed
        self.calls: Counter[str] = Counter()
        self.spoilt: Counter[str] = Counter()

    def __call__(self, body: dict[str, Any]) -> str | Answer:
        text = body_text(body)
        if text.startswith(READERS):
            return steady_reply(body)  # a known question of admission
        prompt, _ = recognise(text)
        self.calls[prompt.id] += 1
        reply = _at_once(self.author, prompt)
        rng = random.Random(f"{self.seed} {hashlib.sha256(text.encode()).hexdigest()}")
        fitting = [kind for kind in self.kinds if re.match(SPOILS[kind][0], prompt.id)]
        if not fitting or rng.random() >= self.rate:
            return reply
        kind = rng.choice(fitting)
        self.spoilt[kind] += 1
        return SPOILS[kind][1](reply, rng)


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
