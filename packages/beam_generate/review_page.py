"""The page on which a reviewer goes through candidates in a notebook. It can be made without a browser."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from beam_generate.probes.drafts import Draft, View
from beam_generate.quality import DIMENSIONS, POINTS, Rating, rate
from beam_generate.review import Review, Verdict
from beamlib.errors import UserError

_WIDE = widgets.Layout(width="98%")
_LONG = {"description_width": "12em"}


def review_widget(candidates: Sequence[Draft], view: View, path: Path, reviewer: str) -> widgets.VBox:
    """Question, reference, rubric and evidence of one candidate at a time, with accept, edit and reject.

    Texts can be changed in place; Edit keeps what differs. Every click is saved to `path` (`review.Review`) at once.
    Executed without a front end it shows the first candidate and writes nothing.
    """
    return _Page(candidates, view, Review(candidates, path, reviewer)).box


def rating_widget(conversation: str, path: Path, rater: str) -> widgets.VBox:
    """Five points for each of the three dimensions of paper B.2, saved to `path` (`quality.rate`) by the button.

    `conversation` is an id such as `100K-1`. Executed without a front end it writes nothing.
    """
    points = {name: widgets.IntSlider(description=name, min=1, max=POINTS, value=3, style=_LONG) for name in DIMENSIONS}
    button, status = widgets.Button(description="Save"), widgets.HTML()

    def save(_: widgets.Button) -> None:
        try:
            rate(path, [Rating(conversation, rater, name, slider.value) for name, slider in points.items()])
        except UserError as error:
            status.value = escape(str(error))
        else:
            status.value = escape(f"Saved to {path.name} as {rater}'s.")

    button.on_click(save)
    return widgets.VBox([*points.values(), button, status])


class _Page:
    def __init__(self, candidates: Sequence[Draft], view: View, review: Review) -> None:
        self._drafts, self._view, self._review = list(candidates), view, review
        self._picked = widgets.Dropdown(layout=_WIDE, options=self._options())
        self._question = widgets.Textarea(description="Question", layout=_WIDE, rows=2)
        self._reference = widgets.Textarea(description="Reference", layout=_WIDE, rows=3)
        self._rubric = widgets.Textarea(description="Rubric", layout=_WIDE, rows=5)
        self._evidence = widgets.Textarea(description="Evidence", layout=_WIDE, rows=2)
        self._messages = widgets.HTML(layout=_WIDE)
        self._status = widgets.HTML(layout=_WIDE)
        buttons = [self._button(verdict) for verdict in ("accept", "edit", "reject")]
        texts = [self._question, self._reference, self._rubric, self._evidence]
        self.box = widgets.VBox([self._picked, *texts, widgets.HBox(buttons), self._status, self._messages])
        self._picked.observe(lambda change: self._show(), names="value")
        if self._drafts:
            self._show()

    def _options(self) -> list[tuple[str, int]]:
        found = []
        for number, draft in enumerate(self._drafts):
            decided = self._review.of(draft.id)
            state = decided.verdict if decided else f"dropped: {draft.dropped}" if draft.dropped else "open"
            found.append((f"{number + 1}/{len(self._drafts)} {draft.ability} [{state}] {draft.question[:80]}", number))
        return found

    def _button(self, verdict: Verdict) -> widgets.Button:
        button = widgets.Button(description=verdict.capitalize())
        button.on_click(lambda _: self._decide(verdict))
        return button

    @property
    def _draft(self) -> Draft:
        number: int = self._picked.value
        return self._drafts[number]

    def _show(self) -> None:
        draft = self._draft
        decided = self._review.of(draft.id)
        changes = decided.changes if decided else {}
        self._question.value = changes.get("question", draft.question)
        self._reference.value = changes.get("reference", draft.reference)
        self._rubric.value = "\n".join(changes.get("rubric", draft.rubric))
        self._evidence.value = _evidence_text({**draft.evidence, **changes.get("evidence", {})})
        found = [self._view.messages[i] for i in draft.evidence_ids if 0 <= i < len(self._view.messages)]
        self._messages.value = "".join(
            f"<p><b>message {message.id}, {escape(message.role)}</b></p>"
            f"<pre style='white-space: pre-wrap'>{escape(message.text)}</pre>"
            for message in found
        )
        why = f"Dropped by {draft.dropped}: {draft.why}. " if draft.dropped else ""
        self._status.value = escape(why + (f"Decided: {decided.verdict}." if decided else "Not decided yet."))

    def _changes(self) -> dict[str, Any]:
        """What differs from the draft in the text fields."""
        draft = self._draft
        rubric = [line.strip() for line in self._rubric.value.splitlines() if line.strip()]
        old_evidence = {part: list(ids) for part, ids in draft.evidence.items()}
        texts: dict[str, tuple[Any, Any]] = {
            "question": (self._question.value.strip(), draft.question),
            "reference": (self._reference.value.strip(), draft.reference),
            "rubric": (rubric, list(draft.rubric)),
            "evidence": (_read_evidence(self._evidence.value), old_evidence),
        }
        return {name: new for name, (new, old) in texts.items() if new != old}

    def _decide(self, verdict: Verdict) -> None:
        if not self._drafts:
            return
        try:
            self._review.decide(self._draft.id, verdict, self._changes() if verdict == "edit" else None)
        except UserError as error:
            self._status.value = escape(str(error))
            return
        number = self._picked.value
        self._picked.options = self._options()  # the new state; this also sets the value back to the first
        self._picked.value = min(number + 1, len(self._drafts) - 1)
        self._show()


def _evidence_text(evidence: dict[str, Any]) -> str:
    return "\n".join(f"{part}: {', '.join(map(str, ids))}".removeprefix(": ") for part, ids in evidence.items())


def _read_evidence(text: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        part, _, ids = line.rpartition(":")
        try:
            found[part.strip()] = [int(i) for i in ids.split(",") if i.strip()]
        except ValueError:
            raise UserError(f"Evidence: {line!r} is no list of message ids; write 12, 14 or a part: 12, 14.") from None
    return found
