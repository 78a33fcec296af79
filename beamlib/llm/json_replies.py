"""Read JSON out of a model's reply: one reader for the judge, the aligner, memories, generation and other benchmarks.

Objects and lists are found in prose, in fences and after thoughts. What surrounds a value may be damaged: quotes of any
kind, keys without quotes, commas too many, quotes within a text, brackets missing at the end. Values are not mended:
one that is not a single literal (`1.0 or 0.5`, `0,5`, `<1.0>`) is `Unread`, which no schema takes. A caller that is
not strict gets its text.

A reply has to say one thing. It has no value if two objects in it contradict each other, if an object has a field
twice, or if it repeats the form that its prompt shows. json-repair guesses in these cases, and takes quadratic time.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import Any, TypeVar, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from beamlib.llm.model import ModelError
from beamlib.llm.prompts import PromptFile, prompt_file, static_texts
from beamlib.llm.thoughts import clean_reply

Value = TypeVar("Value")

_MOST_VALUES = 500  # objects and lists of a reply
_DEEPEST = 60  # brackets within brackets of a damaged value
_ECHOED_WORDS = 3  # of a text in a prompt's form: fewer may be chance
_ALIKE = 0.75  # share of equal words, in order, from which on a text is a stand-in with words changed

_CLOSING = {'"': '"', "'": "'", "“": '”“"', "„": '”“"', "‘": "’'"}
_START = re.compile(r"\{(?=\s*(?:[\"'“‘„}]|[\w-]{1,60}\s*[:：]))|\[(?=\s*(?:[\[{\"'“‘„\]]|-?\d|true\b|false\b|null\b))")
_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*[^*]{0,500}\*/)*")
_KEY = re.compile(
    r"(?:\"(?P<a>(?:\\.|[^\"\\\n]){0,200})\"|'(?P<b>(?:\\.|[^'\\\n]){0,200})'|[“‘„](?P<c>[^“”‘’\"\n]{0,200})[“”’\"]"
    r"|(?P<d>[^\W\d][\w-]{0,60}|-?\d{1,9}))\s*[:：]"
)
_BARE = re.compile(r"[^,，{}\[\]\"'“”\n]*")
_REST = re.compile(r"[^,，{}\[\]\n]*")
_NEXT_ITEM = re.compile(r"\s*(?:[\"'“‘„{\[\]]|-?\d|true\b|false\b|null\b|\Z)")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,300})(?:\.\d+)?(?:[eE][+-]?\d{1,4})?", re.ASCII)
_CONSTANTS = {"true": True, "false": False, "null": None, "none": None}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Unread:
    """What stands in a value's place and is not one literal."""

    text: str

    def __repr__(self) -> str:
        return self.text


class JsonObject(dict[str, Any]):
    """A JSON object with the keys that occur more than once, and whether something in it is no member."""

    repeated: frozenset[str] = frozenset()
    damaged: bool = False

    @classmethod
    def of(cls, pairs: list[tuple[str, Any]]) -> JsonObject:
        value, keys = cls(pairs), Counter(key for key, _ in pairs)
        value.repeated = frozenset(key for key, times in keys.items() if times > 1)
        return value


@dataclass(frozen=True, slots=True)
class FoundJson:
    """An object or list in a reply, the text it was read from, and whether its end is there."""

    value: Any
    text: str
    complete: bool = True


def read_json(
    reply: str,
    schema: type[Value],
    *,
    strict: bool,
    who: str = "the reply",
    what: str = "value",
    prompt: str = "",
    cut: bool = False,
) -> tuple[Value | None, str]:
    """Read the one value of a reply that is meant for `schema`.

    Objects may stand alone, in a list, or as the only value of another. Meant for a model are those that have one of
    its required fields (any field, if none is required), for `dict` all of them. Meant for `list` is any list, alone or
    as an object's only value, or several objects in a row.

    Args:
        schema: A pydantic model, `dict[...]` or `list[...]`.
        strict: Refuse the reply if one of several values does not fit, and all values that are not literals. Otherwise
            those that do not fit are passed over, and what is no literal is a text.
        who: The reply in a reason, such as "the judge's reply".
        what: What a value decides, in a reason: "score".
        prompt: The id of the prompt, whose form is no reply.
        cut: The reply was cut off at its limit: a number at its end may go on.

    Returns:
        The value and an empty reason, or None and the reason.
    """
    try:
        pieces = found_json(clean_reply(reply).text, cut=cut)
        if prompt and any(_is_echo(piece, prompt) for piece in pieces):
            return None, f"{who} repeats the form that its prompt shows"
        values = [piece.value for piece in pieces]
        meant = _lists_in(values) if _kind(schema) is list else _objects_in(values, schema)
        if not meant:
            return None, f"{who} {_absence(reply, values, schema, what)}"
        results = [_validated(value, schema, who, what, strict=strict) for value in meant]
    except RecursionError:
        return None, f"{who} is nested too deeply"
    except ModelError as error:
        return None, f"{who}: {error}"
    wrong = [reason for value, reason in results if value is None]
    fitting = [value for value, _ in results if value is not None]
    if wrong and (strict or not fitting):
        ends_early = cut and not pieces[-1].complete
        return None, f"{who} was cut off before the end of the {what}" if ends_early else wrong[0]
    if any(_decision(value) != _decision(fitting[0]) for value in fitting[1:]):
        return None, f"{who} has two {_noun(schema)}s with different {_plural(what)}"
    return fitting[0], ""


def found_json(text: str, *, cut: bool = False) -> list[FoundJson]:
    """Return the objects and lists of a text in order, but none that lies in another."""
    pieces: list[FoundJson] = []
    at, left = 0, 20 * len(text) + 1_000_000
    while len(pieces) < _MOST_VALUES and (start := _START.search(text, at)):
        begin, value, complete = start.start(), None, True
        if left > 0:
            try:
                value, at = _DECODER.raw_decode(text, begin)
            except json.JSONDecodeError as error:
                # The decoder counted the lines before the error, and read an unterminated string to the end.
                left -= len(text) if error.msg.startswith("Unterminated") else error.pos
            except ValueError:  # thousands of digits
                left -= len(text)
            except RecursionError:
                break
        if value is None:
            scanner = _Scanner(text, begin, cut=cut)
            value = scanner.read_value(0, in_object=False)
            at, complete = max(scanner.at, begin + 1), scanner.complete
        pieces.append(FoundJson(value, text[begin:at], complete))
    return pieces


class _Scanner:
    """Reads one damaged object or list, in time proportional to its length."""

    def __init__(self, text: str, at: int, *, cut: bool) -> None:
        self.text, self.at, self._cut = text, at, cut
        self.complete, self._broken = True, False
        self._open = {"{": 0, "[": 0}

    def read_value(self, depth: int, *, in_object: bool) -> Any:
        sign, start = self._sign(), self.at
        if depth > _DEEPEST:
            self._broken = True
            return Unread("")
        if sign in ("{", "["):
            self._open[sign] += 1
            value: Any = self._object(depth) if sign == "{" else self._list(depth)
            self._open[sign] -= 1
        elif sign in _CLOSING:
            value = self._string(in_object=in_object)
        else:
            value = self._bare()
        if depth and not self._broken and not self._is_followed(in_object=in_object):
            before, self.at = self.at, _end_of(_REST, self.text, self.at)
            self._broken = self.at == before
            value = Unread(self.text[start : self.at].strip())
        return value

    def _object(self, depth: int) -> JsonObject:
        self.at += 1
        pairs: list[tuple[str, Any]] = []
        damaged = False
        while not self._broken and (sign := self._sign()) != "}":
            if sign in (",", "，"):
                self.at += 1
            elif not sign:
                self.complete, self._broken = False, True
            elif key := _KEY.match(self.text, self.at):
                self.at = key.end()
                name = next(group for group in key.groups() if group is not None)
                pairs.append((_unescaped(name), self.read_value(depth + 1, in_object=True)))
            else:
                before, self.at = self.at, _end_of(_REST, self.text, self.at)
                text = self.text[before : self.at].strip()
                if text[:1] in _CLOSING and self.at == len(self.text):  # a key that is cut off
                    continue
                self._broken, damaged = not text, True
                if text and pairs:  # the comma before it was one in a value, as in 0,5
                    pairs[-1] = (pairs[-1][0], Unread(f"{pairs[-1][1]!r},{text}"))
        self.at += not self._broken
        value = JsonObject.of(pairs)
        value.damaged = damaged and not pairs
        return value

    def _list(self, depth: int) -> list[Any]:
        self.at += 1
        items: list[Any] = []
        while not self._broken and (sign := self._sign()) != "]":
            if sign in (",", "，"):
                self.at += 1
            elif not sign or sign == "}":
                self.complete, self._broken = False, True
            else:
                before = self.at
                items.append(self.read_value(depth + 1, in_object=False))
                self._broken = self._broken or self.at == before
        self.at += not self._broken
        return items

    def _string(self, *, in_object: bool) -> str | Unread:
        """Read a text up to the quote after which the object or list goes on: quotes within it may lack a backslash."""
        closing = _CLOSING[self.text[self.at]]
        start = self.at + 1
        for sign in re.compile(rf"\\.|[{closing}]", re.DOTALL).finditer(self.text, start):
            if sign[0][0] != "\\" and self._ends_string(sign.end(), in_object=in_object):
                self.at = sign.end()
                return _unescaped(self.text[start : sign.start()])
        self.at, self.complete, self._broken = len(self.text), False, True
        text = _unescaped(self.text[start:])
        return Unread(text) if self._cut else text

    def _ends_string(self, at: int, *, in_object: bool) -> bool:
        after = _end_of(_SPACE, self.text, at)
        sign = self.text[after : after + 1]
        if sign in (",", "，"):
            beyond = _end_of(_SPACE, self.text, after + 1)
            if in_object:
                return self.text[beyond : beyond + 1] in ("", "}") or _KEY.match(self.text, beyond) is not None
            return _NEXT_ITEM.match(self.text, beyond) is not None
        return sign in ("", "}", "]") or ("\n" in self.text[at:after] and _KEY.match(self.text, after) is not None)

    def _bare(self) -> Any:
        before, self.at = self.at, _end_of(_BARE, self.text, self.at)
        raw = self.text[before : self.at].strip()
        if raw.casefold() in _CONSTANTS and not (self._cut and self.at == len(self.text)):
            return _CONSTANTS[raw.casefold()]
        if not _NUMBER.fullmatch(raw) or (self._cut and self.at == len(self.text)):
            return Unread(raw)  # of a reply that was cut, a 0 at the very end may be the start of 0.5
        return int(raw) if raw.lstrip("-").isdecimal() else _finite(raw)

    def _is_followed(self, *, in_object: bool) -> bool:
        """Tell whether after a value comes what may: a comma or bracket, or the next member although a comma lacks."""
        sign = self._sign()
        if sign in ("", ",", "，") or (sign == "}" and self._open["{"]) or (sign == "]" and self._open["["]):
            return True  # one bracket may lack, and the next one out be there
        return _KEY.match(self.text, self.at) is not None if in_object else sign in ("{", "[", '"')

    def _sign(self) -> str:
        """Skip white space and return the next character."""
        self.at = _end_of(_SPACE, self.text, self.at)
        return self.text[self.at : self.at + 1]


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _finite(raw: str) -> Any:
    number = float(raw)
    return number if math.isfinite(number) else Unread(raw)


_DECODER = json.JSONDecoder(
    strict=False, object_pairs_hook=JsonObject.of, parse_float=_finite, parse_constant=Unread
)  # texts may contain line breaks


def _unescaped(raw: str) -> str:
    if "\\" not in raw:
        return raw
    text = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _ESCAPED.get(m[2], m[2]), raw)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # joins the halves of characters


# What is meant for a schema


def _kind(schema: Any) -> type:
    return get_origin(schema) or (dict if issubclass(schema, BaseModel) else schema)


def _fields(schema: Any) -> dict[str, FieldInfo]:
    """Return a model's fields by the names that replies have, only the required ones if there are any."""
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return {}
    named = {field.alias or name: field for name, field in schema.model_fields.items()}
    return {name: field for name, field in named.items() if field.is_required()} or named


def _objects_in(values: list[Any], schema: Any) -> list[JsonObject]:
    names = _fields(schema).keys()
    objects = (item for value in values for item in _outermost(value, names))
    return [item for item in objects if not names or names & item.keys()]


def _outermost(value: Any, names: Set[str]) -> Iterator[JsonObject]:
    """Yield the objects of a value: itself, those of a list, or the one that is all of another."""
    if isinstance(value, list):
        for item in value:
            yield from _outermost(item, names)
    elif isinstance(value, JsonObject):
        inner = next(iter(value.values())) if len(value) == 1 and not names & value.keys() else None
        yield from _outermost(inner, names) if isinstance(inner, JsonObject) else [value]


def _lists_in(values: list[Any]) -> list[Any]:
    lists = []
    for value in values:
        while isinstance(value, JsonObject) and len(value) == 1:
            value = next(iter(value.values()))
        lists += [value] if isinstance(value, list) else []
    texts = [items for items in lists if not items or not all(isinstance(item, int | float) for item in items)]
    return texts or lists or ([values] if len(values) > 1 else [])  # lists of numbers beside others are references


def _validated(value: Any, schema: Any, who: str, what: str, *, strict: bool) -> tuple[Any, str]:
    """Return a value as `schema`, or None and why it is none."""
    if isinstance(value, JsonObject):
        fields = _fields(schema).keys() or value.keys()
        if value.repeated & fields:
            return None, f"{who} has two {_plural(what)} in one object"
        if value.damaged:
            return None, f"{who} has an object without members"
    try:
        return TypeAdapter(schema).validate_python(_plain(value, strict=strict)), ""
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "value_error":  # of the schema's own validator, which says all
            return None, first["msg"].removeprefix("Value error, ")
        where = ".".join(map(str, first["loc"])) or _noun(schema)
        return None, f"{who} has {first['input']!r:.60} for {where}: {first['msg']}"


def _plain(value: Any, *, strict: bool) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item, strict=strict) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, strict=strict) for item in value]
    return value.text if isinstance(value, Unread) and not strict else value


def _decision(value: Any) -> Any:
    """Return what a value decides: a model's required fields, which reasons and remarks are not among."""
    if not isinstance(value, BaseModel):
        return value
    required = {name for name, field in type(value).model_fields.items() if field.is_required()}
    return value.model_dump(include=required or None)


def _noun(schema: Any) -> str:
    return "list" if _kind(schema) is list else "object"


def _plural(what: str) -> str:
    return what + ("es" if what.endswith(("s", "ch")) else "s")


def _absence(reply: str, values: list[Any], schema: Any, what: str) -> str:
    if not reply.strip():
        return "is empty"
    if _noun(schema) == "list":
        return "holds no list"
    if not values:
        return f"holds no object with a {what}"
    return (
        f"is an object without a {what}" if isinstance(values[0], dict) else f"is a list, not an object with a {what}"
    )


# The form that a prompt shows


@dataclass(frozen=True, slots=True)
class _Form:
    """What a prompt shows of the reply to it.

    Attributes:
        text: The prompt's own text, in small letters.
        values: The JSON values in it, with the objects and lists inside them.
        stand_ins: Texts that stand for what a reply has to say, as in `"reason": "one sentence"`. An example of literal
            values has none: its texts could be a reply's.
    """

    text: str
    values: tuple[Any, ...]
    stand_ins: frozenset[str]


@cache
def _form_of(prompt: PromptFile) -> _Form:
    shown = [piece.value for part in static_texts(prompt) for piece in found_json(part)]
    stand_ins: set[str] = set()
    for value in shown:
        if not any(isinstance(part, dict) for part in (value, *_within(value))):
            continue  # a bracket in prose, such as a reference or an empty list, is no form
        texts = list(_texts(value))
        unread = any(isinstance(leaf, Unread) for leaf in _leaves(value))
        if unread or not all(re.search(r"\w", text) for text in texts):
            stand_ins.update(_words(text) for text in texts if " " in text.strip() or not re.search(r"\w", text))
    inner = (
        part for value in shown for part in _within(value) if isinstance(part, dict) or any(True for _ in _texts(part))
    )
    values = tuple(value for value in [*shown, *inner] if any(True for _ in _leaves(value)))
    return _Form(_spaced(" ".join(static_texts(prompt))), values, frozenset(stand_ins))


def _is_echo(piece: FoundJson, prompt_id: str) -> bool:
    form = _form_of(prompt_file(prompt_id))
    objects = (value for value in _within(piece.value) if isinstance(value, dict))
    if any(value in form.values for value in [piece.value, *objects]):
        return True
    if not piece.complete and _spaced(piece.text) in form.text:
        return True
    texts = [_words(text) for text in _texts(piece.value)]
    return any(_is_stand_in(text, stand_in) for text in texts for stand_in in form.stand_ins)


def _is_stand_in(text: str, stand_in: str) -> bool:
    """Tell whether a text is a prompt's stand-in: whole, its beginning, a part of it, or with some words changed."""
    words, own = text.split(), stand_in.split()
    spoken = len(words) > 1 and any(word.isalpha() for word in words)  # 1.0 is a value
    if text == stand_in or (spoken and words == own[: len(words)]):
        return True
    if not _ECHOED_WORDS <= len(words) <= len(own):  # what fills a stand-in in is longer
        return False
    return text in stand_in or SequenceMatcher(None, words, own, autojunk=False).ratio() > _ALIKE


def _spaced(text: str) -> str:
    return " ".join(text.casefold().split())


def _words(text: str) -> str:
    """Return the words of a text; of one without words, its signs."""
    return " ".join(re.findall(r"\w+", text.casefold())) or text.strip()


def _within(value: Any) -> Iterator[Any]:
    """Yield the objects and lists inside a value."""
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(item, dict | list):
            yield item
        yield from _within(item)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    else:
        yield value


def _texts(value: Any) -> Iterator[str]:
    return (leaf if isinstance(leaf, str) else leaf.text for leaf in _leaves(value) if isinstance(leaf, str | Unread))
