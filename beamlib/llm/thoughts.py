"""Tell a model's answer from its thoughts and from turns that it invents, by the shape of marks in the reply.

A mark is a bracketed name: `<think>`, `[/THINK]`, `<|channel|>`, `<unused94>`, `◁think▷`. What it means follows from
its name and place, so that models nobody has listed are read too:

- A name of thinking opens thoughts, or closes them with a slash, `end` or the like. Before a closing mark alone all is
  thought: many chat templates put the opening one into the prompt.
- A special token before a word of thinking (`<|channel>thought`) opens thoughts up to the next special token.
- A special token that ends a turn, or begins another's, ends the reply.

An answer may speak of marks. In code, in quotes, in JSON and within a sentence they are text. Where it cannot be told
what is thought, the reply is unreadable and nothing of it is used.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Literal

from beamlib.llm.model import ModelError, Outcome

LearntMark = tuple[str, str]
"""How the thoughts of one model open and close, literally; the opening is empty where the prompt has it."""

_Kind = Literal["open", "close", "final", "end", "turn", "box", "token"]

_MARK = re.compile(
    r"(?P<bracket>[<＜\[{(◁⟨〈《【«‹])(?P<double>(?P=bracket))?(?P<before>[/|｜]{0,2})\s?"
    r"(?P<name>[^\W\d][\w▁:.+-]{0,60}(?:[|｜]\w[\w▁:.+-]{0,60})?)"
    r"(?P<attributes>[ \t][^<>\[\]{(◁⟨〈《【«‹\n]{0,400}?)?(?P<after>[/|｜]{0,2})"
    r"[>＞\]})▷⟩〉》】»›](?(double)[>＞\]})▷⟩〉》】»›])"
    r"|(?P<odd>\[e~\[|\]~b\])"  # MiniMax
)
_THINKING = re.compile(
    r"think|thought|reasoning|\Areasons?\Z|analy[sz]|scratch|reflect|deliberat|(?<!s)ponder|monolog|contemplat|ruminat|introspect"
    r"|brainstorm|rationale|思考|思维|推理",
    re.IGNORECASE,
)
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+")
_BARE_TOKEN = re.compile(
    r"(?:start|begin|end)[_▁]of[_▁]\w+|(?:\w+:)?[eb]o[std]|s|pad|(?:unused|reserved|special|extra)\w*?_?\d+|inst|sys",
    re.I,
)
"""Names of special tokens that have no bar beside them."""
_NEXT_WORD = re.compile(r"[ \t]*(?:\w+/)?([^\W\d]\w*)(?=[ \t]*(?:\n|\Z|<))")
_THINKS = frozenset({"inner", "cot"})
_ENDS = frozenset({"eos", "eot", "eom", "eod", "return", "stop", "close", "suffix", "finish", "pad"})
_DENIES = re.compile(r"(?:no|non|not|without)[_-]?(?=think|reason)|(?:think|reason)\w*?[_-]?off\Z")
_BEGINS = frozenset({"begin", "start", "bos", "prefix", "open", "turn"})
_OTHERS = frozenset(
    {"user", "human", "system", "developer", "tool", "observation", "ipython", "function", "inst", "sys"}
)
_OWN = frozenset({"assistant", "model", "bot", "chatbot", "ai"})
_FRAMES = frozenset({"turn", "text", "sentence", "header", "im", "id", "role", "message", *_OTHERS, *_OWN})
_ANSWERS = frozenset({"answer", "response", "output", "final", "solution", "conclusion", "reply"})

_FENCE = re.compile(r"^[ \t]*(?:```+|~~~+)(?P<info>[^\n`<]*)", re.MULTILINE)
_SUMMARY = re.compile(r"\s*<summary[^<>]*>(.{0,300}?)</summary>", re.IGNORECASE | re.DOTALL)
_HERE = r"\W{0,4}(?:here(?:['’]s|\s+is|\s+are)\s+(?:my|the)|my)\s+(?:\w+\s+){0,2}"
_THOUGHT_HEADING = re.compile(rf"\A\s*{_HERE}?(?:thought|thinking|reasoning|analysis)[^\n:]{{0,30}}:", re.I)
_PROCESS = re.compile(r"\bmy (?:\w+ )?(?:thought|thinking|reasoning) process:\Z", re.I)
_THOUGHT_FENCE = re.compile(r"\A\s*(?P<fence>```+|~~~+|:::+)[ \t]*(?:think|thought|reason|analysis)\w*[ \t]*\n", re.I)
_ANSWER_HEADING = re.compile(rf"^{_HERE}?(?:{'|'.join(sorted(_ANSWERS))})[^\n:]{{0,30}}:[*_]*", re.I | re.M)
_LED = re.compile(
    r"\A\s*(?P<sign>[^\w\s<＜\[({◁⟨〈《【«‹]{0,8}) ?(?:(?:begin|start)[ _{-]?(?:of[ _-]?)?)?(?:think|thought)\w*"
    r"(?P<other>[^\w\s>]{0,8})(?=\s|\w)", re.I,
)  # fmt: skip
"""A word of thinking between signs, or in a line of its own, that a reply begins with: `@@think@@`, `Thinking...`."""
_SIGNS = r"(?:[^\w\s<\[({]{0,6} ?){0,2}"
_LINE_END = r"(?:[^\w\n:]{0,8}:[*_]*|[^\w\n]{0,8}\n)"
_TITLE = re.compile(rf"\A\s*{_SIGNS}(?:think(?:ing)?|thoughts?)(?: process)?{_LINE_END}", re.I)
_QUOTED = re.compile(
    rf"\A\s*(?:> ?)?{_SIGNS}(?:thoughts?|thinking|reasoning)\b[^\n]{{0,30}}\n\s*(?:>[^\n]*(?:\n|\Z))+", re.I
)
_SPACED = re.compile(r"([\[<(])(begin|start|end)[ ](?:of )?((?:think|thought|reason)\w*)([\]>)])", re.I)
_COMMENT = re.compile(r"\A\s*<!--\s*\w*(?:think|thought|reason).*?-->\s*", re.I | re.S)
_ANSWER_TITLE = re.compile(rf"^{_SIGNS}(?:(?:final|my|the) )*(?:answer|response|output|reply){_LINE_END}", re.I | re.M)
_ANSWER_FRAME = re.compile(
    r"^[ \t]*(?P<bracket>[\[<(])(?:begin|start)[ _-](?:of[ _-])?(?:\w+[ _-])?"
    rf"(?:{'|'.join(sorted(_ANSWERS))})[\]>)][ \t]*\n"
    r"(?P<inner>.*?)(?:^[ \t]*(?P=bracket)end[ _-][\w -]{1,40}[\]>)]\s*(?:<\|\w+\|>\s*)?)?\Z", re.I | re.M | re.S,
)  # fmt: skip
"""Lines around the answer after thoughts that have no mark of their own: `[BEGIN FINAL RESPONSE]` (Apriel)."""
_ESCAPED = re.compile(r"&lt;[/|]?[\w:]*(?:think|thought|reason)", re.I)
_UNKNOWN_TAG = re.compile(
    r"\A\s*<(?:start_|begin_)?(?P<name>[^\W\d][\w.:-]*)>(?P<inner>[^<].*?)"
    r"<(?:/|/?end_|/start_)(?P=name)>\s*(?P<rest>\S.*)", re.I | re.S,
)  # fmt: skip
_HTML = re.compile(
    "a|b|big|blockquote|body|br|button|center|code|d[dlt]|del|details|div|em|fieldset|footer|form|h[1-6]|header|html|i|img|ins"
    "|label|li|main|mark|nav|note|[opu]l|p|pre|q|s|samp|script|section|small|span|strong|style|su[bpm]\\w*|svg|table|t[drt]|title|var"
)
_BARE_WORD = re.compile(r"\A\s*/?(?:thought|think|thinking|analysis|reasoning)[ \t]*\n")
_CHANNEL = re.compile(r"\s*(\w+)(?:[^<\n]{0,80}(?:<\|(?!message)\w+\|>[^<\n]{0,40})?<\|message\|>)?")
_TAGGED = re.compile(r"(\w+)<\|sep\|>")
_RECIPIENT = re.compile(r"(?:<\|start\|>assistant)?[ \t]{0,4}to=(self|user)(?=<\|message\|>)")
_BULLET = re.compile(r"[ \t]*(?:[-*+>|#]|\d+[.)])+[ \t]+")
_LINK = re.compile(r"\([^()\s]+\)")
_TYPED = re.compile(r"=\s*[\"']?\w*(?:think|thought|reason)", re.IGNORECASE)
_ANSWER_TAG = re.compile(rf"<((?:\w+[_-])?(?:{'|'.join(sorted(_ANSWERS))}))>\s*", re.IGNORECASE)
_ANSWER_TAGS = re.compile(rf"^[ \t]*<({'|'.join(sorted(_ANSWERS))})>(?=.*</\1>)", re.I | re.M | re.S)
_NEAR = 400  # characters of its line on either side of a mark that tell how it is used
_MOST_MARKS = 500
_NESTED = 3  # tags around an answer
_PROSE = 5  # words in a tag from which on they are prose


@dataclass(frozen=True, slots=True)
class _Mark:
    """A mark in a reply.

    Attributes:
        end: Where it ends, with the word that belongs to a special token.
        special: It is a token of the chat template rather than a tag.
        until_next: Thoughts that end at the next special token.
        own: A turn of the model itself begins.
        leads: It is a mark only where the reply begins.
    """

    start: int
    end: int
    kind: _Kind
    name: str
    bracket: str = "<"
    special: bool = False
    until_next: bool = False
    own: bool = False
    leads: bool = False


@dataclass(frozen=True, slots=True)
class CleanReply:
    """A reply without thoughts.

    Attributes:
        text: What is left of it. If it ended within thoughts, what stood before them.
        unfinished: Whether it ended within thoughts.
        ran_on: Whether text followed the token that ends its turn, and was left out.
    """

    text: str
    unfinished: bool = False
    ran_on: bool = False


def clean_reply(text: str, learnt: Sequence[LearntMark] = ()) -> CleanReply:
    """Remove thoughts from a reply, and turns after it. A reply without marks stays as it is.

    Args:
        learnt: Marks of this model's thoughts that were seen in earlier replies.

    Raises:
        ModelError: It cannot be told what is thought (UNREADABLE).
    """
    text, unfinished = _without_learnt(text, learnt)
    text = _RECIPIENT.sub(lambda to: f"<|channel|>{'analysis' if to[1] == 'self' else 'final'}", text)  # harmony's form
    if unfinished or _is_json(text):
        return CleanReply(text if unfinished else _answer_in_json(text), unfinished)
    if _SPACED.match(text.lstrip()):
        text = _SPACED.sub(r"\1\2_\3\4", text)
    if "<" not in text and _ESCAPED.search(text) and (clean := clean_reply(unescape(text))).text != unescape(text):
        return clean
    return _without_headings(text) or _without_unknown_tag(_without_marks(text))


def _without_learnt(text: str, learnt: Sequence[LearntMark]) -> tuple[str, bool]:
    for opening, closing in learnt:
        while opening and (start := text.find(opening)) >= 0:
            end = text.find(closing, start + len(opening)) if closing else -1
            if end < 0:
                return text[:start], True
            text = text[:start] + text[end + len(closing) :].lstrip()
        if closing and closing in text:
            text = text.rpartition(closing)[2].lstrip()
    return text, False


def _is_json(text: str) -> bool:
    """Tell whether the whole reply, perhaps in a code fence, is JSON: marks in it are parts of its texts."""
    body = text.strip()
    if body[:3] == "```" and body[-3:] == "```":
        body = body[3:-3].partition("\n")[2].strip()
    if body[:1] not in ("{", "["):
        return False
    try:
        json.loads(body, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _answer_in_json(text: str) -> str:
    """Return the answer of an object that holds thoughts and an answer alone; any other JSON as it is."""
    value = json.loads(text, strict=False) if text.lstrip()[:1] == "{" else None
    names = {bool(_THINKING.search(name)): name for name in value or ()}
    if value and len(value) == len(names) == 2 and names[False].casefold() in _ANSWERS:
        return value[names[False]] if isinstance(value[names[False]], str) else text
    return text


def _without_headings(text: str) -> CleanReply | None:
    """Remove thoughts that words set off instead of marks; None where no words do.

    Granite writes "Here is my thought process:" and "Here is my response:". Servers that drop special tokens leave
    `analysis…assistantfinal…` of harmony, and `thought` in a line of its own of Gemma's channels.
    """
    if text.startswith("analysis") and (found := text.rfind("assistantfinal")) > 0:
        return CleanReply(text[found + len("assistantfinal") :].lstrip())
    if re.match(r"analysis[A-Z]", text):
        return CleanReply("", unfinished=True)
    if frame := _ANSWER_FRAME.search(text):
        return CleanReply(frame["inner"].strip(), unfinished=not frame["inner"].strip())
    if fence := _THOUGHT_FENCE.match(text):
        _, found_end, answer_after = text[fence.end() - 1 :].partition(f"\n{fence['fence']}")
        return CleanReply(answer_after.lstrip(), unfinished=not found_end)
    if bare := _BARE_WORD.match(text):
        rest = text[bare.end() :]
        return CleanReply(rest) if _is_json(rest) else CleanReply("", unfinished=True)
    if quoted := _QUOTED.match(text) or _COMMENT.match(text):
        return CleanReply(text[quoted.end() :].lstrip())
    if led := _LED.match(text):
        signs = re.escape("".join(sorted({*led["sign"], *led["other"]})) or "\n")
        ends = rf"[{signs}]{{1,8}} ?(?:/|(?:end|done)\w*[ _{{-]?(?:of[ _-]?)?) ?(?:think|thought)\w* ?[{signs}]{{0,8}}"
        if closing := re.compile(ends, re.I).search(text, led.end()):
            return CleanReply(text[closing.end() :].lstrip())
    if (title := _TITLE.match(text)) and (answer := _ANSWER_TITLE.search(text, title.end())):
        return CleanReply(text[answer.end() :].lstrip())
    if heading := _THOUGHT_HEADING.match(text):
        if answer := _ANSWER_HEADING.search(text, heading.end()):
            return CleanReply(text[answer.end() :].lstrip())
        if _PROCESS.search(heading[0]):  # "Here are my thoughts:" may well begin an answer
            return CleanReply("", unfinished=True)
    return None


def _without_unknown_tag(clean: CleanReply) -> CleanReply:
    """Refuse a reply that begins with prose in a tag that nobody knows: without learnt marks it may be thoughts.

    Where tags of an answer hold the rest, it is told all the same.
    """
    tag = _UNKNOWN_TAG.match(clean.text)
    name = tag["name"].casefold() if tag else ""
    if tag is None or clean.unfinished or _HTML.fullmatch(name) or name in _ANSWERS:
        return clean
    if (answer := _ANSWER_TAG.search(tag["rest"])) and tag["rest"].rstrip().endswith(f"</{answer[1]}>"):
        return CleanReply(_unwrapped(tag["rest"][answer.start() :]), ran_on=clean.ran_on)
    if len(tag["inner"].split()) < _PROSE or _BULLET.match(tag["inner"].lstrip("\n")):
        return clean
    raise ModelError("thoughts cannot be told from the reply", Outcome.UNREADABLE)


def _without_marks(text: str) -> CleanReply:
    marks = _Marks(text)
    kept: list[str] = []
    at, removed, special, ran_on = 0, False, False, False
    while mark := marks.next_live(at, blank=not "".join(kept).strip()):
        before, special = text[at : mark.start], special or mark.special
        blank = not (before.strip() or "".join(kept).strip())
        final = marks.final_after(mark) if mark.kind in ("end", "turn") and not blank else None
        at = mark.end
        if mark.kind == "open":
            kept.append(before)
            end = marks.end_of_thought(mark)
            if end is None:
                return CleanReply("".join(kept), unfinished=True)
            at, removed = end + len(text[end:]) - len(text[end:].lstrip()), True
        elif mark.kind in ("close", "final") or final:
            at, removed = final.end if final else at, True
            kept.clear()
        elif mark.kind == "box":
            kept.append(before)
        elif blank and mark.kind == "token" and (twin := marks.twin_after(mark)):
            at, removed = twin.end, True
        elif blank and (mark.kind != "turn" or mark.own):
            removed = True  # a header of the answer's own turn, or the end of an empty message
        elif mark.kind == "token" and re.search(r"\w", text[at:]):
            raise ModelError("thoughts cannot be told from the reply", Outcome.UNREADABLE)
        else:
            kept.append(before)
            at, ran_on = len(text), re.search(r"\w", _MARK.sub("", text[at:])) is not None
    answer = "".join([*kept, text[at:]])
    if special and _Marks(answer).any_special():
        raise ModelError("thoughts cannot be told from the reply", Outcome.UNREADABLE)
    return CleanReply(_unwrapped(answer.lstrip()) if removed else answer, ran_on=ran_on)


def _unwrapped(answer: str) -> str:
    """Remove the tags around an answer that follows thoughts: `<answer>`, `<response>`."""
    for _ in range(_NESTED):
        if not (tag := _ANSWER_TAG.match(answer)):
            break
        inner, closing, rest = answer[tag.end() :].rpartition(f"</{tag[1]}>")
        answer = inner.rstrip() + rest if closing else answer[tag.end() :]
    tail = re.search(r"</(\w+)>\s{0,9}\Z", answer)  # of tags around thoughts and answer
    around = tail and tail[1].casefold() in _ANSWERS and f"<{tail[1]}>" not in answer
    return answer[: tail.start()].rstrip() if tail and around else answer


class _Marks:
    """The marks of a text, and how each of them is used."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._boxes: set[str] = set()
        self._marks: list[_Mark] = []
        for found in _MARK.finditer(text):
            if mark := self._read(found):
                self._marks.append(mark)
        if len(self._marks) > _MOST_MARKS:
            raise ModelError(f"the reply has more than {_MOST_MARKS} marks of a chat template", Outcome.UNREADABLE)
        self._starts = [mark.start for mark in self._marks]
        self._fences: tuple[int, list[tuple[int, int]]] = (-1, [])

    def next_live(self, at: int, *, blank: bool) -> _Mark | None:
        """Return the first mark from `at` on that is not part of the answer's own text.

        Args:
            blank: Nothing is kept of what stands before `at`.
        """
        for mark in self._from(at):
            first = blank and not self.text[at : mark.start].strip()
            if self._is_live(mark, at, first):
                return mark
        return None

    def end_of_thought(self, opening: _Mark) -> int | None:
        """Return where the thoughts that `opening` begins end, None if they do not."""
        closing = self._closing(opening)
        if closing is None:
            return None
        return closing.start if closing.kind in ("turn", "open", "final") else closing.end

    def final_after(self, mark: _Mark) -> _Mark | None:
        """Return the later mark that says that only what follows is the answer, unless another's turn comes first."""
        for later in self._from(mark.start):
            if later.kind == "final" or (later.kind == "turn" and not later.own):
                return later if later.kind == "final" else None
        return None

    def twin_after(self, mark: _Mark) -> _Mark | None:
        """Return the numbered token that ends what `mark`, one too, begins a reply with: `[unused16]…[unused17]`."""
        later = next((other for other in self._from(mark.end) if other.special), None)
        stems = {name.rstrip("0123456789") for name in (mark.name, later.name if later else "")}
        return later if later and len(stems) == 1 and mark.name != later.name else None

    def any_special(self) -> bool:
        """Tell whether a special token is left that stands neither in code nor in quotes."""
        return any(
            mark.special and not self._is_quoted(mark, 0) and not self._fence_around(mark, 0) for mark in self._marks
        )

    def _from(self, at: int) -> Iterator[_Mark]:
        return iter(self._marks[bisect_left(self._starts, at) :])

    def _read(self, found: re.Match[str]) -> _Mark | None:
        """Say what a bracketed name means by itself; None if it is no mark."""
        if found["odd"]:
            return self._read_special(
                found, found["odd"], {"eos"} if "e" in found["odd"] else {"turn"}, ends="e" in found["odd"]
            )
        name, before, after, bracket = found["name"], found["before"], found["after"], found["bracket"]
        start, end = found.span()
        attributes, bars = found["attributes"] or "", any(sign in "|｜" for sign in before + after)
        words = [piece.casefold() for piece in _PIECE.findall(name)]
        pieces = set(words)
        link = "/" not in before and _LINK.match(self.text, end)
        if "/" in after and not bars and _THINKING.search(name):
            return _Mark(start, end, "box", name, bracket, leads=True)  # <think/>: nothing was thought
        if (bracket in "[{(" and (attributes or link)) or ("/" in after and not bars) or (bars and bracket in "{("):
            return None  # a header such as [thoughts of May], a link, a tag without content
        slash = "/" in before + after
        ends = slash or bool(pieces & _ENDS or (after and not before)) or any(one.startswith("end") for one in pieces)
        special = bars or (bracket in "<[" and not attributes and _BARE_TOKEN.fullmatch(name) is not None)
        name = name.casefold()
        if not special:  # <finish_reason> closes nothing
            ends = slash or (bracket not in "{(" and any(word.startswith("end") for word in (words[:1] + words[-1:])))
        if _DENIES.search(name):
            return _Mark(start, end, "box", name, bracket, special, leads=True)
        if _THINKING.search(name) or pieces & _THINKS:
            return _Mark(start, end, "close" if ends else "open", name, bracket, special)
        if special:
            return self._read_special(found, name, pieces, ends=ends)
        summary = _SUMMARY.match(self.text, end) if name == "details" else None
        thinking = _THINKING.search(summary[1]) if summary else _TYPED.search(attributes)
        if bracket == "<" and thinking and not slash:
            return _Mark(start, end, "open", name, leads=True)
        return None

    def _read_special(self, found: re.Match[str], name: str, pieces: set[str], *, ends: bool) -> _Mark | None:
        """Say what a special token means with the word after it."""
        start, end = found.span()
        if name in ("open", "close") and (tagged := _TAGGED.match(self.text, end)):  # Kimi K3
            thinks, answers = _THINKING.search(tagged[1]), tagged[1] in _ANSWERS and name == "open"
            kind: _Kind = "final" if answers else "end" if not thinks else "open" if name == "open" else "close"
            return _Mark(start, tagged.end(), kind, tagged[1], special=True)
        channel = "channel" in pieces
        if channel and ends:
            return _Mark(start, end, "close", name, special=True)
        following = (_CHANNEL if channel else _NEXT_WORD).match(self.text, end)
        word, after = (following[1].casefold(), following.end()) if following and not ends else ("", end)
        if word in _ANSWERS or pieces & _ANSWERS:
            return _Mark(start, after if word in _ANSWERS else end, "end" if ends else "final", name, special=True)
        if word and (channel or _THINKING.match(word)):
            return _Mark(start, after, "open", name, special=True, until_next=True)
        core = "_".join(sorted(pieces - _BEGINS - {"end", "of"}))
        if (ends and core in self._boxes) or (pieces & _BEGINS and not ends and core and not pieces & _FRAMES):
            self._boxes.add(core)
            return _Mark(start, end, "box", name, special=True)
        if ends:
            return _Mark(start, end, "end", name, special=True)
        if roles := (pieces | {word}) & (_OTHERS | _OWN):
            return _Mark(start, after if word in roles else end, "turn", name, special=True, own=not roles & _OTHERS)
        if name == "s":
            return None  # text may be struck through
        return _Mark(start, end, "turn" if pieces & _BEGINS else "token", name, special=True, own=True)

    def _is_live(self, mark: _Mark, at: int, first: bool) -> bool:
        if self._is_quoted(mark, at) or (mark.leads and not first):
            return False
        if fence := self._fence_around(mark, at):  # closing marks of thoughts that hold a fence stand alone
            alone = not self._line_before(mark, at).strip() and not self._line_after(mark).strip()
            return mark.kind == "close" and alone and mark.name not in self.text[fence[0] : mark.start].casefold()
        if mark.kind == "open" and not mark.special:
            return self._is_opening(mark, at, first)
        return not self._is_mentioned(mark, at)

    def _is_opening(self, mark: _Mark, at: int, first: bool) -> bool:
        """Tell an opening tag from one that is spoken of: it begins a line, or follows a sentence and is closed."""
        before, closing = self._line_before(mark, at), self._closing(mark)
        if first or before in ("", " "):
            if closing is None and any(later.kind == "close" for later in self._from(mark.end)):
                return False  # its closing tag is but spoken of
            shown = not first and self.text[at : mark.start].rstrip()[-1:] == ":"  # as an example of such a reply
            special = mark.bracket not in "[{(" or (mark.bracket == "[" and self.text[mark.start : mark.end].isupper())
            return not shown and (closing is not None or special)
        thought = self.text[mark.end : closing.start].split() if closing else []
        return before.rstrip()[-1:] in tuple(".!?") and len(thought) > 2

    def _closing(self, opening: _Mark) -> _Mark | None:
        """Return the mark that ends the thoughts of `opening`."""
        if opening.leads:
            tag = re.compile(rf"</\s?{re.escape(opening.name)}\s*>", re.IGNORECASE).search(self.text, opening.end)
            return _Mark(*tag.span(), "close", opening.name) if tag else None
        ended: _Mark | None = None
        for mark in self._from(opening.end):
            if self._is_enclosed(mark):
                continue
            if opening.until_next and mark.special:
                if mark.kind == "end" and not self.text[opening.end : mark.start].strip():
                    continue  # the end of a header
                return mark
            if mark.kind == "close" and not self._is_pair_of_words(opening, mark):
                return mark
            if opening.special and mark.special and mark.kind in ("final", "end") and ended is None:
                ended = mark
        if ended is None and (tag := _ANSWER_TAGS.search(self.text, opening.end)):
            return _Mark(tag.start(), tag.start(), "close", opening.name)
        return ended

    def _is_pair_of_words(self, opening: _Mark, closing: _Mark) -> bool:
        """Tell whether two tags in a line are spoken of: "<think> and </think> are tags"."""
        between = self.text[opening.end : closing.start]
        after = self._line_after(closing)
        return "\n" not in between and len(between.split()) < 2 and re.match(r" +[a-z]", after) is not None

    def _is_quoted(self, mark: _Mark, at: int) -> bool:
        before, after = self._line_before(mark, at), self._line_after(mark)
        if self._is_enclosed(mark) or (before.count("`") % 2 and "`" in after):
            return True
        curly = before.rfind("“") > before.rfind("”") and "”" in after
        return curly or ((before.count('"') - before.count('\\"')) % 2 == 1 and '"' in after)

    def _is_enclosed(self, mark: _Mark) -> bool:
        pair = self.text[max(0, mark.start - 1) : mark.start] + self.text[mark.end : mark.end + 1]
        return pair in ("``", "''", '""', "“”", "‘’", "()", "«»")

    def _is_mentioned(self, mark: _Mark, at: int) -> bool:
        """Tell whether a closing mark or a special token is a word of a sentence, a list or a table."""
        before, after = self._line_before(mark, at), self._line_after(mark)
        if mark.kind == "box":  # as a word it stands apart from what it would enclose
            return self.text[mark.start - 1 : mark.start].isspace() and after[:1].isspace()
        if mark.name == "s" and "<s>" in before:
            return True
        if mark.kind == "close" and self._is_opened_in_text(mark, at, before):
            return True
        if _BULLET.fullmatch(before):
            return True
        if not after.strip():  # nothing follows a mark that an answer ends with
            return mark.kind == "close" and before[-1:] == " " and not self.text[mark.end :].strip()
        if not before.strip():
            return mark.kind in ("end", "close") and re.match(r" +[a-z|:=-]", after) is not None
        last = before.rstrip()[-1]
        return last in "(=,+" or (before[-1] in " \t" and last not in ".!?…。！？)]}*`\"'”")

    def _is_opened_in_text(self, mark: _Mark, at: int, before: str) -> bool:
        """Tell whether an opening mark that is part of the text stands in the same line, or begins an earlier one."""
        earlier = (one for one in self._from(at) if one.start < mark.start and one.kind == "open" and not one.special)
        return any(
            one.start >= mark.start - len(before) or not self._line_before(one, at).strip()
            for one in earlier
            if not self._is_quoted(one, at)
        )

    def _fence_around(self, mark: _Mark, at: int) -> tuple[int, int] | None:
        """Return the span of the closed code fence that a mark lies in, of those that begin after `at`."""
        if self._fences[0] != at:
            self._fences = at, list(_closed_fences(self.text, at))
        return next((span for span in self._fences[1] if span[0] < mark.start < span[1]), None)

    def _line_before(self, mark: _Mark, at: int) -> str:
        return self.text[max(at, mark.start - _NEAR) : mark.start].rpartition("\n")[2]

    def _line_after(self, mark: _Mark) -> str:
        return self.text[mark.end : mark.end + _NEAR].partition("\n")[0]


def _closed_fences(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of code fences that are closed."""
    start: int | None = None
    for fence in _FENCE.finditer(text, at):
        if start is None:
            start = fence.start()
        elif not fence["info"].strip():
            yield start, fence.end()
            start = None
