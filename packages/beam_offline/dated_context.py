"""A context of dated sessions, pairs or notes, taken apart into what was said and when.

Known forms: a session under a date in brackets with its lines under USER and ASSISTANT, pairs under `[messages 4-5]`,
and notes, a line each, with or without a date. A note "subject: value (since date; was earlier value)" is a state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_DATE = re.compile(
    r"[\s\[(*-]*(?P<day>\d{4}[-/]\d{1,2}[-/]\d{1,2})(?: ?\(\w{2,9}\))?"
    r"(?:[T, ]+(?P<time>\d{1,2}:\d\d)(?::\d\d)?)?[\])*]*"
)
_DATE_LINE = re.compile(rf"(?:#+\s*)?(?:\w+ )?{_DATE.pattern}[\s:#*]*")
_MESSAGES = re.compile(r"(?:- )?\[messages (\d+)-\d+\]\s*")
_SPEAKER = re.compile(r"(USER|ASSISTANT): ?")
_STATE = re.compile(
    r"(?P<subject>[^:\n\"]{2,90}): (?P<value>.+?)"
    r"(?:\s*\((?P<why>(?:since|as of|was|were|until|before|previously|from|told|said)\b.*)\))?\s*"
)
_UNCERTAIN = re.compile(r"(?:uncertain|unknown|unclear|not (?:known|certain))\b", re.IGNORECASE)
_GONE = re.compile(r"\(?(?:deleted|removed|forgotten|erased)\b", re.IGNORECASE)
_WAS = re.compile(r"(?:^|[;(] ?)(?:was|were|previously|before(?: that)?|earlier),?:? (?P<values>[^;]+)")
_THEN = re.compile(r",? then ")
_RESTS = re.compile(r"\s*\[[^\]\n]*\bmessages?\b[^\]\n]*\]$")
_SINCE = re.compile(rf"(?:since|as of|from)\b:?{_DATE.pattern}")
_FROM = re.compile(rf"\b(?:since|from|on|as of)\b:?{_DATE.pattern}")
_UNTIL = re.compile(
    r"[\s,(]*(?:\b(?:until|since|from|on|as of|till)\b[ :]*)?[\[(]?\d{4}[-/]\d{1,2}[-/]\d{1,2}.*$", re.DOTALL
)
_BEFORE = re.compile(r"\s*\((?:before|earlier|previously|formerly): ?")
_NO_STATEMENT = re.compile(r"#.*|\S+\.\w{1,4}|\W*")  # a heading, the name of a file, a ruled line
_FURTHER = "    "
"""Begins the further lines of a note."""

_MOST_LINES = 60


@dataclass(frozen=True, slots=True)
class State:
    """What a memory says of a subject: its value now, and in `values` all it says it had, with dates, oldest first.

    `doubt` says why an `uncertain` one is so; what it was last is among the values. `gone`: it was removed, or there is
    nothing to say.
    """

    subject: str
    value: str
    values: tuple[tuple[str, str], ...] = ()
    uncertain: bool = False
    gone: bool = False
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """What the user said in one message, or one note. `when` sorts; it is empty where no date is told."""

    when: str
    text: str
    state: State | None = None


@dataclass
class _Reader:
    """The lines of a context, one after the other. What the assistant said is passed over."""

    when: str = ""
    place: int = 0
    role: str = ""
    lines: list[str] = field(default_factory=list)
    found: list[tuple[str, int, Piece]] = field(default_factory=list)

    def flush(self) -> None:
        """End the message or note that is being read."""
        text, self.lines = "\n".join(self.lines).strip(), []
        if not self.role:
            for part in _unfolded(text):
                self._add(part)
        elif self.role == "USER":
            self._add(text)

    def _add(self, text: str) -> None:
        dated = _DATE.match(text)
        when = _when(dated) if dated else self.when
        body = text[dated.end() :].lstrip(" :-–—\t\n") if dated else text.lstrip("-*• ")
        state = _state(body, dated=dated is not None) if not self.role else None
        if body and not _NO_STATEMENT.fullmatch(body):
            self.found.append((when if state is None else "9", self.place, Piece(when, body, state)))
            self.place += 1

    def head(self, when: str, place: int | None = None) -> None:
        """Begin a new block."""
        self.flush()
        self.role, self.when = "", when
        self.place = self.place if place is None else place


def read_pieces(context: str) -> list[Piece]:
    """What the user said and what was noted, oldest first; states, which are as new as the memory, come last."""
    reader = _Reader()
    for line in context.splitlines():
        _read_line(reader, line)
    reader.flush()
    pieces = dict.fromkeys(piece for *_, piece in sorted(reader.found, key=lambda entry: entry[:2]))
    return list(pieces)


def _read_line(reader: _Reader, line: str) -> None:
    if header := _MESSAGES.match(line):
        reader.head("", int(header[1]))
        line = line[header.end() :]
        if not line:
            return
    if dated := _DATE_LINE.fullmatch(line):
        reader.head(_when(dated))
    elif speaker := _SPEAKER.match(line):
        reader.flush()
        reader.role, reader.lines = speaker[1], [line[speaker.end() :]]
    elif reader.role or _open(reader.lines):
        reader.lines.append(line)
    elif reader.lines and line.startswith(_FURTHER):
        reader.lines.append(line.removeprefix(_FURTHER))
    else:
        reader.flush()
        reader.lines = [line]


def _open(lines: Sequence[str]) -> bool:
    """Whether a note goes on in the next line: a quotation or code in it has not been closed."""
    text = "\n".join(lines)
    odd = text.count('"') % 2 == 1 or text.count("```") % 2 == 1
    return bool(lines) and odd and len(lines) < _MOST_LINES


def _when(dated: re.Match[str]) -> str:
    """A date that sorts as text."""
    year, month, day = re.split(r"[-/]", dated["day"])
    return f"{year}/{int(month):02}/{int(day):02} {(dated['time'] or '').zfill(5) if dated['time'] else ''}".strip()


def _unfolded(text: str) -> list[str]:
    """A note and those that it has in brackets as what was before, oldest first."""
    parts = _BEFORE.split(text)
    inner = len(parts) - 1
    closed = parts[-1].removesuffix(")" * inner) if inner else parts[-1]
    return [closed, *reversed(parts[:-1])]


def _state(text: str, *, dated: bool) -> State | None:
    """A note as a state: the subject before the first colon, the value, and what stands in brackets after it.

    Without such brackets it is a sentence with a colon in it, unless it is short and has neither date nor full stop.
    """
    found = _STATE.fullmatch(_RESTS.sub("", text))
    if found is None:
        return None
    subject, value, why = found["subject"].strip("*- "), found["value"].strip("* "), found["why"] or ""
    if _GONE.match(value):
        return State(subject, "", gone=True)
    if _UNCERTAIN.match(value):
        doubted = re.search(r"\b(?:it )?was (?P<value>.+?), but\b.*", value, re.DOTALL)
        last = (("", doubted["value"]),) if doubted else ()
        doubt = doubted[0] if doubted else "something that it depends on has changed"
        return State(subject, "", (*_earlier(why), *last), uncertain=True, doubt=doubt)
    if not why and (dated or len(subject.split()) > 6 or value.endswith((".", "!", "?"))):
        return None
    since = _SINCE.match(why)
    return State(subject, value, (*_earlier(why), (_when(since) if since else "", value)))


def _earlier(why: str) -> Iterator[tuple[str, str]]:
    """The earlier values that a remark names, oldest first: "was B; before that A", or "was A, then B"."""
    for one in reversed(list(_WAS.finditer(why))):
        for told in _THEN.split(one["values"]):
            dated, value = _FROM.search(told), _UNTIL.sub("", told).strip(" ,()")
            if value:
                yield _when(dated) if dated else "", value
