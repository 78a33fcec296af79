"""The stand-in's reading of coding guidelines: what code should look like, as colleagues say it in so many words.

A guideline is recognised sentence by sentence: a thing ("method names"), what is wanted of it ("end them with"), and a
value (`_ab`). Nothing here knows how answers are checked; it is rules over wording and misses what is said otherwise.
"""

from __future__ import annotations

import keyword
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from beamlib.text import split_sentences


class Thing(StrEnum):
    """What a guideline is about."""

    CLASS = "class"
    FUNCTION = "function"
    METHOD = "method"
    ARGUMENT = "argument"
    ATTRIBUTE = "attribute"
    VARIABLE = "variable"
    CODE = "code"


class Form(StrEnum):
    """What a guideline asks of its thing."""

    START = "start"
    END = "end"
    INCLUDE = "include"
    DIGIT = "digit"
    CASE = "case"
    DOCSTRING = "docstring"
    ANNOTATION = "annotation"
    TRY = "try"
    ASSERT = "assert"
    COMMENT = "comment"
    DECORATOR = "decorator"
    IMPORT = "import"


@dataclass(frozen=True, slots=True)
class Guideline:
    """One guideline. `value` is the affix, text, case, decorator or module; `module` where a decorator comes from."""

    thing: Thing
    form: Form
    value: str = ""
    module: str = ""

    @property
    def key(self) -> tuple[Thing, Form, str]:
        """Two guidelines with the same key are about the same, and the newer replaces the older."""
        return self.thing, self.form, self.value if self.form in (Form.DECORATOR, Form.IMPORT) else ""


_THING = re.compile(
    r"\b(?:(?P<argument>(?:functions?[ -]|methods?[ -]|keyword )?(?:arguments?|parameters?|args?)(?: variables?)?)"
    r"|(?P<attribute>(?:class |instance )?attributes?|(?:class|instance) variables?)"
    r"|(?P<method>(?:class |instance )?methods?)|(?P<function>functions?)|(?P<variable>variables?)"
    r"|(?P<class>class(?:es)?))\b",
    re.IGNORECASE,
)
_GOVERNED = re.compile(
    r"\b(?:in|for|to|into|within|of|on|across|before|around|throughout|inside|above)\s+"
    r"(?:(?:all|each|every|your|our|my|the|their|any|of|one|new|names?|end|python|public|private)\s+){0,6}$",
    re.IGNORECASE,
)
_JOINS = re.compile(r"(?: names?)?(?:,|,? and|,? or| as well as|/| &)\s*(?:all |your |our |the |both )*", re.IGNORECASE)

_VALUES = re.compile(
    r"@(?P<decorator>[a-z_]\w*)"
    r"|['\"‘“`](?P<decorated>[a-z_]\w*)['\"’”`] decorator"
    r"|(?<![\w@.])(?:(?P<start>[a-z][a-z0-9]{0,11}_)|(?P<end>_[a-z0-9]{1,12}))(?!\w)"
    r"|\b(?P<side>prefix|suffix) (?:of )?['\"‘“`](?P<affix>[a-z]\w{0,11})['\"’”`]"
    r"|\b(?:string|substring|letters|word|characters|text|includ\w{1,3}|incorporat\w{1,3}|contain\w{0,3}) "
    r"['\"‘“`](?P<include>\w{1,12})['\"’”`](?! module| decorator| librar)"
    r"|(?P<digit>\b(?:digits?|single numbers?)\b)"
    r"|(?P<case>\b(?:camel|pascal|snake|upper)[ _-]?case\b|\blower[ _-]?case\b(?! letter)"
    r"|\ball[ -]caps\b|\bcapital letters\b)"
    r"|(?P<comment>\b(?:comments?|commenting|commented)\b)"
    r"|(?P<docstring>\b(?:docstrings?|doc strings?|documentation strings?)\b)"
    r"|(?P<annotation>\b(?:annotations?|annotat(?:e|es|ed|ing)|type hints?)\b)"
    r"|(?P<try>\btry(?:[ -](?:and[ -])?(?:except|catch))?[ -](?:statements?|blocks?|clauses?))"
    r"|(?P<assert>\b(?:assert statements?|assertions?|asserts)\b)",
    re.IGNORECASE | re.ASCII,
)
_MODULE = re.compile(
    r"\bfrom (?:the )?['\"‘“`]?(?P<name>[a-z_]\w*)['\"’”`]? (?:module|library|package)", re.I | re.ASCII
)
_IMPORT = re.compile(
    r"\bimport(?:s|ing)? (?:the )?['\"‘“`](?P<quoted>[a-z_][\w.]*)['\"’”`]"
    r"|\bmodule[,:]? ['\"‘“`](?P<named>[a-z_][\w.]*)['\"’”`]"
    r"|(?<!from the )(?<!from )['\"‘“`](?P<module>[a-z_][\w.]*)['\"’”`] (?:module|library|package)",
    re.IGNORECASE | re.ASCII,
)
_WORTH_READING = re.compile(
    r"_|@|prefix|suffix|['\"‘“`]\w{1,12}['\"’”`]|digit|single number|case\b|caps\b|capital|comment|doc ?string"
    r"|documentation string|annotat|type hint|\btry\b|assert|import",
    re.IGNORECASE,
)
_DIRECTIVE = re.compile(
    r"\b(?:always|must|should|please|want|need|'d like|would like|make sure|ensure|from now on|going forward|"
    r"emphasi[sz]e|emphasis|importan\w+|insist|focus|forget|remember|practices?|habit|require\w*|mandatory|expect|"
    r"follow|will|'ll|adopt|start|begin)\b"
    r"|^\W*(?:\w+[,:.)] ){0,3}(?:include|add|use|utili[sz]e|put|write|incorporate|annotate|provide|have)\b",
    re.IGNORECASE,
)
_INCLUDES = re.compile(r"\b(?:includ|incorporat|contain|add|put|have|has|us(?:e|es|ing)\b|feature)", re.IGNORECASE)
_CODE_WORD = re.compile(r"\b(?:code|codebase|coding|scripts?|programs?|functions?|methods?)\b", re.IGNORECASE)
_REPLACED = re.compile(r"\b(?:instead of|rather than|no longer|not)\s+(?:\S+\s+){0,2}['\"‘“`]?@?$", re.IGNORECASE)
_REQUEST = re.compile(r"^\W*(?:\w+, )?(?:can|could|would|will) you\b", re.IGNORECASE)
_THE_VARIABLE = re.compile(r"\bthe $", re.IGNORECASE)
_FOR = re.compile(
    r"['\"’”`]?\s?(?:(?:as )?(?:a |the )?(?:prefix|suffix)\s)?(?:for|in|to|on|of)\s(?:[a-z]+\s){0,6}", re.IGNORECASE
)
_ENCLOSED = {Thing.ARGUMENT: Thing.FUNCTION, Thing.ATTRIBUTE: Thing.CLASS}
_BODIES = (Thing.FUNCTION, Thing.METHOD)

_BLOCK = re.compile(r"^(?=(?:- )?\[messages \d+-\d+\])", re.MULTILINE)
_MESSAGES = re.compile(r"(?:- )?\[messages (\d{1,18})-\d+\]\s*")
_HELD = 3
"""So many sentences back is looked for what "them" are: "now for method names. Always end them with"."""
_LONGEST = 2000
"""Characters of a sentence that are read; nobody says longer ones, and pasted data must not cost more."""


@dataclass(frozen=True, slots=True)
class _Mention:
    """A thing, or several joined by "and", and where it stands in its sentence."""

    begin: int
    end: int
    things: tuple[Thing, ...]
    governed: bool


def _things(sentence: str) -> list[_Mention]:
    found: list[_Mention] = []
    for match in _THING.finditer(sentence):
        begin = match.start()
        thing = next(thing for thing in Thing if thing is not Thing.CODE and match[thing.value])
        if thing is Thing.VARIABLE and found and _THE_VARIABLE.search(sentence, max(0, begin - 4), begin):
            continue  # "when naming methods, end the variable name with": the methods are meant
        last = found[-1] if found else None
        if last and _JOINS.fullmatch(sentence, last.end, begin):
            found[-1] = _Mention(last.begin, match.end(), (*last.things, thing), last.governed)
        else:
            governed = _GOVERNED.search(sentence, max(0, begin - 60), begin) is not None
            found.append(_Mention(begin, match.end(), (thing,), governed))
    return found


def _about(sentence: str, things: Sequence[_Mention], value: re.Match[str], form: Form) -> tuple[Thing, ...]:
    """The things that the value of a sentence is for; none where the sentence names none."""
    before = [mention for mention in things if mention.end <= value.start()]
    after = [mention for mention in things if mention.begin >= value.end()]
    governed = [mention for mention in after if mention.governed]
    if form in (Form.START, Form.END):
        # "'x_' for attribute names": the thing follows at once; else it is the last one named.
        near = [mention for mention in governed if _FOR.fullmatch(sentence, value.end(), mention.begin)]
        chosen = near or before[-1:] or governed
    else:
        attached = [mention for mention in before if mention.end + 1 == value.start()]
        chosen = attached[-1:] or governed or before[-1:] or after
    return chosen[0].things if chosen else ()


def _value(match: re.Match[str]) -> tuple[Form, str]:
    group = str(match.lastgroup)
    text = match[group]
    if group == "affix":
        return (Form.START if match["side"].lower() == "prefix" else Form.END), text
    if group == "decorated":
        return Form.DECORATOR, text
    form = Form(group)
    if form is Form.CASE:
        return form, "upper" if text[:3].lower() in ("all", "cap") else re.split(r"[ _-]?case", text.lower())[0]
    return form, text if form in (Form.START, Form.END, Form.INCLUDE, Form.DECORATOR) else ""


class _Guideline:
    """Reads sentences in order and knows what the next one may refer to: the last ones, and a module's name."""

    def __init__(self) -> None:
        self.found: list[Guideline] = []
        self._before: deque[str] = deque(maxlen=_HELD)
        self._module = ""

    def read(self, sentence: str) -> None:
        sentence = sentence[:_LONGEST]
        if _WORTH_READING.search(sentence) and (not sentence.rstrip("\"' ").endswith("?") or _REQUEST.search(sentence)):
            self._read_imports(sentence)
            self._read_values(sentence)
        self._before.append(sentence)

    def _held(self) -> tuple[Thing, ...]:
        """The things last talked about, where that is not long ago."""
        for sentence in reversed(self._before):
            if things := _things(sentence):
                return things[-1].things
        return ()

    def _read_imports(self, sentence: str) -> None:
        if "import" not in sentence.lower():
            return
        for match in _IMPORT.finditer(sentence):
            name = str(match["quoted"] or match["named"] or match["module"]).strip(".")
            if all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split(".")):
                self.found.append(Guideline(Thing.CODE, Form.IMPORT, name))

    def _read_values(self, sentence: str) -> None:
        things = _things(sentence)
        module = _MODULE.search(sentence)
        if module and module["name"] != "same" and not keyword.iskeyword(module["name"]):
            self._module = module["name"]
        directed = _DIRECTIVE.search(sentence) is not None
        for match in _VALUES.finditer(sentence):
            form, value = _value(match)
            if _REPLACED.search(sentence, max(0, match.start() - 40), match.start()):
                continue
            if form is Form.COMMENT:
                if directed and _CODE_WORD.search(sentence):
                    self.found.append(Guideline(Thing.CODE, form))
                continue
            about = _about(sentence, things, match, form) or self._held()
            for thing in dict.fromkeys(about):
                self._add(sentence, thing, form, value, directed)

    def _add(self, sentence: str, thing: Thing, form: Form, value: str, directed: bool) -> None:
        if form in (Form.DOCSTRING, Form.ANNOTATION, Form.TRY, Form.ASSERT):
            about_comments = form is Form.ANNOTATION and "comment" in sentence.lower()
            thing = _ENCLOSED.get(thing, thing)
            if directed and not about_comments and thing in _BODIES:
                self.found.append(Guideline(thing, form))
        elif form is Form.DECORATOR:
            if thing in (*_BODIES, Thing.CLASS) and not keyword.iskeyword(value):
                self.found.append(Guideline(thing, form, value, self._module))
        elif form is not Form.DIGIT or _INCLUDES.search(sentence):
            self.found.append(Guideline(thing, form, value))


def _in_order(text: str) -> Iterable[str]:
    """The parts of `text`, those under "[messages a-b]" by their number; others stay with what they follow."""
    pieces = _BLOCK.split(text)
    numbered: list[tuple[int, int, str]] = []
    first = -1
    for position, piece in enumerate(pieces):
        header = _MESSAGES.match(piece)
        if header:
            first = int(header[1])
            piece = piece[header.end() :]
        numbered.append((first, position, piece))
    return [piece for _, _, piece in sorted(numbered)]


@lru_cache(maxsize=8)
def standing_guidelines(text: str) -> tuple[Guideline, ...]:
    """The guidelines that hold at the end of `text`, oldest first; where two are about the same, the newer.

    Cached because all queries about one history come with the same text.
    """
    reading = _Guideline()
    for piece in _in_order(text):
        for sentence in split_sentences(piece):
            reading.read(sentence)
    standing: dict[tuple[Thing, Form, str], Guideline] = {}
    for guideline in reading.found:
        standing.pop(guideline.key, None)
        standing[guideline.key] = guideline
    return tuple(standing.values())
