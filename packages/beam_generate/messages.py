"""What a speaker wrote, made fit to be a message: nothing of the machinery that asked for it may show."""

from __future__ import annotations

import re
from functools import cache

from beam_generate.shapes import Repairs
from beamlib.data.markers import ARROW, strip_stray
from beamlib.llm.model import Completion, Model, ModelError, Prompt
from beamlib.llm.prompts import prompt_file
from beamlib.llm.retrying import ReadReply, ask

_SURROGATE = re.compile("[\ud800-\udfff]")
_REFUSAL = re.compile(
    r"\W*(?:(?:(?:i[’']m|i am) (?:very )?)?sorry\W+(?:but )?i (?:can[’']t|cannot|can not|am unable|won[’']t)\b"
    r"|i (?:can[’']t|cannot|am unable to) (?:help (?:you|with)|assist|comply|fulfil)\b"
    r"|as an ai (?:language model|model|assistant)\b)",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"(?:\*\*)?(?:assistant|ai assistant|user|you|your reply|reply)(?:\*\*)?[ \t]*:(?:\*\*)?[ \t]*", re.IGNORECASE
)
_ARROW_END = re.compile(r"[ \t]*->->[ \t]*(?:[0-9]{1,4}|n/a\b)?\)?", re.IGNORECASE)
_TAG = re.compile(r"^</?(\w+)>$", re.MULTILINE)
_WORDS = 7
"""Words from which a line of a prompt cannot stand in a message by chance."""
_LEAKED = "A first reply to this repeated parts of this request. Write only the message itself, in words of its own."
_NOTHING = "A first reply to this held no message. Write the message that is asked for."
_YES_OR_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
_ONE_WORD = "A first reply to this was neither yes nor no. Reply with one word, yes or no."


def refuses(text: str) -> bool:
    """Whether a text begins as a model does that will not do what it was asked for."""
    return _REFUSAL.match(text) is not None


def clean(text: str) -> str:
    """`text` without null characters and half characters, which no file could carry, and without space around it."""
    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", text)
    return text.replace("\x00", "").strip()


@cache
def _machinery(prompt_id: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tags of a prompt that no reply would hold, and its lines of instruction."""
    text = prompt_file(prompt_id).template
    names = sorted({name for name in _TAG.findall(text) if "_" in name})
    lines = (line.strip(" -") for line in text.split("\n") if "{{" not in line)
    return tuple(f"{slash}{name}>" for name in names for slash in ("<", "</")), tuple(
        line for line in lines if len(line.split()) >= _WORDS
    )


def leaks(text: str, prompt_id: str) -> list[str]:
    """The tags and lines of the prompt that stand in `text`."""
    tags, lines = _machinery(prompt_id)
    found = [tag for tag in tags if tag in text] if "_" in text else []
    return found + [line for line in lines if line in text]


def tidy(text: str, *, quoted: bool) -> tuple[str, int]:
    """A message without markers, a speaker's label and (if `quoted`) quotation marks; and how many markers it had."""
    text, markers = strip_stray(clean(text))
    if ARROW in text:
        text, more = _ARROW_END.subn("", text)
        markers += more
    label = _LABEL.match(text)
    text = text[label.end() :] if label else text
    if quoted and len(text) > 1 and text[0] + text[-1] in ('""', "“”") and text[0] not in text[1:-1]:
        text = text[1:-1]
    return text.strip(), markers


async def ask_message(model: Model, prompt: Prompt, repairs: Repairs, where: str) -> str | None:
    """The message that `prompt` asks for, or None where the model has none; what was done about it is noted.

    A reply that repeats the prompt is asked for again once, then the repeated parts are taken out. One without a word
    is asked for again once too, as is a refusal in the user's place; then there is none. A `ModelError` that may pass
    is raised.
    """
    text, found = "", list[str]()

    def note(what: str, done: str) -> None:
        repairs.note("dialogue", where, f"{prompt.id}: {what}", done)

    def read(reply: Completion, attempt: int) -> ReadReply[None]:
        nonlocal text, found
        text, markers = tidy(reply.text, quoted=prompt.id != "assistant_answer")
        if markers:
            note(f"{markers} plan marker(s) in the message", "taken out")
        if _LABEL.match(clean(reply.text)):
            note("a speaker's label before the message", "taken off")
        if problem := _unfit(text, prompt.id):
            note(f"{problem} ({text[:60]!r})", "left out" if attempt else "asked again")
            text = ""
            return None, _NOTHING
        found = leaks(text, prompt.id)
        if not found:
            return None, None
        note(f"the message repeats its prompt ({found[0][:60]!r})", "parts taken out" if attempt else "asked again")
        return None, _LEAKED

    def failed(error: ModelError, attempt: int) -> ReadReply[None]:
        note(f"no {'second ' * attempt}reply ({error.reason})", "the first one taken" if attempt else "left out")
        return None, None

    await ask(model, prompt, read, failed=failed)
    for part in found:
        text = text.replace(part, "")
    text = text.strip()
    if found and not text:
        note("nothing but parts of its prompt", "left out")
    return text or None


def _unfit(text: str, prompt_id: str) -> str:
    """Why a text is no message; empty where it is one."""
    if not any(character.isalnum() for character in text):
        return "no word in the message"
    return "a refusal in the user's place" if prompt_id != "assistant_answer" and refuses(text) else ""


async def ask_yes_or_no(model: Model, prompt: Prompt, repairs: Repairs, where: str) -> bool:
    """Whether the reply's first word is yes; one that is neither is asked for again once, then counts as no, noted."""

    def undecided(reason: str, done: str) -> None:
        repairs.note("dialogue", where, f"{prompt.id}: neither yes nor no ({reason})", done)

    def read(reply: Completion, attempt: int) -> ReadReply[bool]:
        decided = _YES_OR_NO.match(reply.text)
        if decided:
            return decided[1].lower() == "yes", None
        undecided(f"{reply.text.strip()[:60]!r}", "taken for no" if attempt else "asked again")
        return False, _ONE_WORD

    def failed(error: ModelError, _: int) -> ReadReply[bool]:
        undecided(error.reason, "taken for no")
        return False, None

    return await ask(model, prompt, read, failed=failed)
