"""The page that an answer in mathematics is composed on: sections in order, and a length that is kept."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from beamlib.generate.author.bank import Bank
from beamlib.generate.author.facts import Fact, Occasion
from beamlib.generate.author.problems_base import Problem, decimal
from beamlib.generate.author.wording import to_you
from beamlib.text import count_tokens

_TOLERANCE = 0.03
_FIRST = ("opening", "fact", "working", "check", "direct")
_MIDDLE = ("example", "advice", "tip", "risk", "further")
_LAST = ("list", "practice", "end")
_HEADS = {
    "working": ("### Working", "### Step by step", "### Solution", "### The full way"),
    "check": ("### Check", "### Does it hold?", "### Verification"),
    "advice": ("### What I would do next", "### How to work on this", "### Next steps", "### For the coming days"),
    "risk": ("### What can go wrong", "### Where people stumble", "### Watch out for"),
    "list": ("### Checklist", "### Before you close the notebook", "### Short list"),
    "practice": ("### To practise", "### Your turn", "### Try it yourself"),
    "example": ("### A worked example", "### An example", "### In an example"),
    "tip": ("### Background", "### A thought on this", "### What stands behind it", "### Worth knowing"),
    "further": ("### Asked next", "### Closely related", "### What usually comes up next"),
}
_OPEN = (
    "Here is how I would go about it.",
    "Good that you bring this up now.",
    "Let me sort this a little.",
    "This is worth a careful answer.",
    "Let us look at it in order.",
    "That is a fair thing to ask at this stage.",
    "There is a good answer to that.",
    "It helps to settle this early.",
)
_OPENINGS = {
    "introduction": (
        "Nice to meet you, {name}.",
        "Welcome, {name}.",
        "Thank you for telling me about yourself, {name}.",
    ),
    "fact": ("Thanks for the details.", "Good to know.", "I have noted that.", "That helps me to plan with you."),
    "update": ("Thanks for the correction.", "Good, I will work with the new state.", "I have taken over the change."),
    "contradiction": (
        "Thanks for telling me where you stand.",
        "All right, let us go on from here.",
        "Good, then we plan from there.",
    ),
    "preference": (
        "Thanks, I will explain things in that way.",
        "Good to know how you like to work.",
        "I will keep to that.",
    ),
    "instruction": (
        "Understood, I will do that from now on.",
        "All right, I will stick to that.",
        "I will keep that rule in mind.",
    ),
    "dig": _OPEN,
    "reply": (
        "Thanks, that makes it clearer.",
        "Good, that is what I needed to know.",
        "That helps.",
        "Thank you, now I can be more precise.",
    ),
    "followup": (
        "Good point.",
        "Yes, that deserves a word of its own.",
        "That is a natural next thing to ask.",
        "Gladly, a little more on that.",
    ),
}
_SPARE = (
    "Besides, {0}.",
    "Also, {0}.",
    "When that is done, {0}.",
    "If there is time left, {0}.",
    "On another day, {0}.",
    "And {0}.",
    "Then {0}.",
)
_END = (
    "Keep {concept} in view.",
    "Do one more line on {technique} by hand.",
    "After that, back to {theorem}.",
    "Leave other {exercises} for tomorrow.",
)
_MORE = ("One more without its solution: {0}", "And this, with no solution given: {0}", "For later: {0}")
_COMPARE = (
    "For comparison afterwards: {0}.",
    "The answer to compare with: {0}.",
    "What should come out: {0}.",
    "Result, to be covered at first: {0}.",
    "You are right if you have this: {0}.",
)
_OTHER = (
    "On your other question:",
    "As for what you asked at the end:",
    "And to the second part of your message:",
    "Now to your other question:",
)
_SLIP = (
    "Where it often goes wrong: suppose that {said}. {why}",
    "A tempting wrong turn would be that {said}. {why}",
    "Now imagine that {said}. {why}",
)
_PRACTICE = (
    "A variation:",
    "Try this one without looking back:",
    "For practice:",
    "A similar problem:",
    "To do on your own:",
    "With other numbers:",
)
_OWN = re.compile(r"\b(I|my|me)\b")
_SMALL = ("The ", "Your ", "A ", "An ", "One ", "All ", "Weekly ", "Daily ")
_ARTICLE = re.compile(r"\bI\b")


def capital(text: str) -> str:
    """`text` with its first letter as a capital."""
    return text[:1].upper() + text[1:]


def _you(clause: str) -> str:
    """What the user said of themselves, said to them."""
    return re.sub(r"\bmy\b", "your", _ARTICLE.sub("you", clause))


class Page:
    """Collects paragraphs by section up to the wanted length; `text` puts them in order and adjusts the end."""

    def __init__(self, occasion: Occasion) -> None:
        self._actions = list(range(len(occasion.topic.actions)))
        self._reasons: set[int] = set()
        self._checks = _own_checks(occasion.bank, occasion.topic.checks)
        occasion.rng.shuffle(self._actions)
        occasion.rng.shuffle(self._checks)
        self._occasion = occasion
        self._rng = occasion.rng
        self._parts: dict[str, list[str]] = {}
        self.worked = 0
        self._unsaid: list[str] = []
        self._compared = self._rng.sample(_COMPARE, len(_COMPARE))
        self._leads = self._rng.sample(_PRACTICE, len(_PRACTICE))
        self._slack = max(4, int(occasion.target * _TOLERANCE))
        self.room = occasion.target - count_tokens(occasion.closing)

    def _add(self, section: str, text: str, must: bool = False) -> bool:
        """Add a paragraph (with its section's heading if it is the first) where it fits; `must` adds it in any case."""
        head = "" if section in self._parts or section not in _HEADS else self._rng.choice(_HEADS[section])
        cost = count_tokens(text) + count_tokens(head)
        if not must and cost > self.room:
            return False
        self._parts.setdefault(section, [head] if head else []).append(text)
        self.room -= cost
        return True

    def opening(self) -> None:
        """A first paragraph for messages without a problem; without a question of the topic, its nearest advice."""
        occasion, rng = self._occasion, self._rng
        lead = rng.choice(_OPENINGS[occasion.purpose]).format(name=occasion.profile.name)
        if self._answer():
            # What was asked with nothing told besides is answered at once.
            if occasion.purpose != "followup" and not (occasion.purpose == "dig" and rng.random() < 0.5):
                self._add("opening", lead, must=True)
            return
        thing = occasion.thing.name if occasion.thing is not None else occasion.title.goal
        action, other = (self._action(self._actions.pop()) for _ in range(2))
        body = rng.choice(
            (
                "For {thing}, the first thing is to {action}. After that, {other}.",
                "With {thing} in view, the useful thing is to {action}. Next, {other}.",
                "When it comes to {occasion}, it pays to {action}. The second thing I would suggest: {other}.",
                "My short answer for {thing}: {action}. Besides, {other}.",
                "In short, {action}. If there is time left for {thing}, {other}.",
            )
        ).format(thing=thing, action=action, other=other, occasion=occasion.topic.occasion)
        self._add("opening", f"{lead} {body}", must=True)

    def direct(self, *, second: bool) -> None:
        """The topic's answer to the question that the message holds; `second`: the message also shares a problem."""
        if answer := self._answer():
            self._add("direct", f"{self._rng.choice(_OTHER)} {answer}" if second else answer, must=True)

    def _answer(self) -> str:
        occasion, topic, asked = self._occasion, self._occasion.topic, self._occasion.asked
        followup = occasion.purpose == "followup"
        answers, questions = (topic.brief, topic.followups) if followup else (topic.direct, topic.questions)
        if asked < 0 or not answers or occasion.purpose == "reply":
            return ""
        # A rule may be given without any question; then nothing is to be answered.
        rule = occasion.purpose == "instruction"
        if rule and occasion.fill(questions[asked]).lower() not in occasion.question.lower():
            return ""
        return occasion.fill(answers[asked])

    def _action(self, number: int) -> str:
        """An action with the reason that explains it, where it has one that this page has not given."""
        occasion, topic = self._occasion, self._occasion.topic
        action = occasion.fill(topic.actions[number])
        reason = topic.because[number] if topic.because else -1
        if reason < 0 or reason in self._reasons:
            return action
        self._reasons.add(reason)
        return f"{action}{self._rng.choice((', because', ', since'))} {occasion.fill(topic.reasons[reason])}"

    def verdict(self, problem: Problem, form: str, lead: str) -> None:
        """What is to be said first of the user's work; a mistake is named with its place and reason."""
        text = lead
        if form == "slip":
            slip = problem.slip
            place = problem.steps[slip.at].title
            before = "" if slip.at == 0 else "Everything before that point is correct. "
            text += self._rng.choice(
                (
                    f' {before}The trouble is in the step "{place}", where {_you(slip.said)}. {slip.why}',
                    f' {before}Look at the place where {_you(slip.said)} (step "{place}"). {slip.why}',
                    f" {before}You say that {_you(slip.said)}, and this is where it goes wrong. {slip.why}",
                )
            )
        self._add("opening", text, must=True)

    def fact(self) -> None:
        """A paragraph on the fact of the message, with arithmetic on its number or day; none if it is denied."""
        fact = self._occasion.fact
        if fact is not None and self._occasion.purpose in ("fact", "update"):
            self._add("fact", fact_note(fact, self._occasion), must=self._occasion.target >= 300)

    def working(self, problem: Problem, form: str) -> None:
        """The solution as fully as the room allows: every step with its heading, the steps alone, or the result."""
        full = [f"{n}. **{step.title}.** {step.text}" for n, step in enumerate(problem.steps, start=1)]
        bare = [step.text for step in problem.steps]
        result = f"**Result:** {problem.answer}."
        lead = {
            "slip": "Put right, it goes like this.",
            "stuck": "From the beginning, so that it stands in one place:",
        }.get(form, "")
        spare = self.room - 12 - count_tokens(result)
        for lines in (full, bare):
            body = "\n\n".join([*([lead] if lead else []), *lines])
            if count_tokens(body) <= spare:
                self._add("working", f"{body}\n\n{result}", must=True)
                break
        else:
            self._add("working", result, must=True)
        self._add("check", problem.check)

    def variation(self, problem: Problem) -> bool:
        """A problem to practise with, and its answer, if it fits."""
        lead = self._leads.pop() if self._leads else "And another:"
        return self._add(
            "practice",
            f"{lead} {problem.statement}\n\n{self._compared[len(self._leads) % len(_COMPARE)].format(problem.answer)}",
        )

    def example(self, problem: Problem, lead: str, *, slip: bool) -> bool:
        """A problem worked in full, with `lead` on what it has to do with the topic, if it fits.

        `slip` adds the usual mistake; not beside work of the same kind that has no such mistake.
        """
        lines = [lead, f"**Problem.** {problem.statement}"]
        lines += [f"{n}. **{step.title}.** {step.text}" for n, step in enumerate(problem.steps, start=1)]
        lines.append(f"**Result:** {problem.answer}. {problem.check}")
        if not self._add("example", "\n\n".join(lines)):
            return False
        self.worked += 1
        if slip:
            said, why = _you(problem.slip.said), problem.slip.why
            self._add("example", self._rng.choice(_SLIP).format(said=said, why=why))
        return True

    def advice(self, share: float) -> None:
        """Steps with reasons, risks with remedies, background, further questions: down to `share` of the room."""
        occasion, rng, topic = self._occasion, self._rng, self._occasion.topic
        keep = int(self.room * share)
        cures: dict[int, int] = {}
        for risk in rng.sample(range(len(topic.remedy)), len(topic.remedy)):
            if topic.remedy[risk] in self._actions and len(cures) < 3:
                cures[risk] = topic.remedy[risk]
                self._actions.remove(topic.remedy[risk])
        steps, self._actions = self._actions[:4], self._actions[4:]
        asked = [at for at in range(len(topic.direct)) if at != occasion.asked or occasion.purpose == "followup"]
        further = rng.sample(asked, min(2, len(asked)))
        wanted = {
            "advice": [f"- {capital(self._action(number))}." for number in steps],
            "risk": [
                f"- If {occasion.fill(topic.risks[risk])}, {occasion.fill(topic.actions[cure])}."
                for risk, cure in cures.items()
            ],
            "tip": [occasion.fill(tip) for tip in rng.sample(topic.tips, min(2, len(topic.tips)))],
            "further": [
                f"**{occasion.fill(topic.questions[at])}** {occasion.fill(topic.direct[at])}" for at in further
            ],
        }
        groups = list(wanted)
        rng.shuffle(groups)
        # What fits beside the question comes first for all, so that no group takes the whole room.
        for first in (True, False):
            for section in groups:
                for text in wanted[section][:2] if first else wanted[section][2:]:
                    if (self.room <= keep or not self._add(section, text)) and section == "advice":
                        self._unsaid.append(text.removeprefix("- ").rstrip("."))

    def checklist(self) -> None:
        """Some of what only this topic has to tick off, in every other answer."""
        if self._rng.random() < 0.55:
            return
        for check in self._checks[:2]:
            self._add("list", f"- [ ] {capital(self._occasion.fill(check))}")
        if "list" in self._parts:
            self._checks = self._checks[2:]

    def text(self, more: Sequence[Problem]) -> str:
        """The page as text, filled up to the wanted length with what is left of the topic and with `more` problems."""
        occasion, rng = self._occasion, self._rng
        leads = rng.sample(_SPARE, len(_SPARE))
        left = [text[:1].lower() + text[1:] for text in self._unsaid]
        left += [self._action(number) for number in self._actions] + [occasion.fill(one) for one in self._checks]
        pool = [leads[at % len(leads)].format(text) for at, text in enumerate(left)]
        practice = more if "practice" in self._parts else []
        extra = [lead.format(problem.statement) for lead, problem in zip(_MORE, practice, strict=False)]
        pool += extra
        pool += [occasion.fill(end) for end in _END]
        while self.room > self._slack:
            fitting = [text for text in pool if count_tokens(text) <= self.room + self._slack // 2]
            if not fitting:
                break
            # A problem closes the gap where it does so alone; short sentences are the last resort.
            best = max(fitting, key=count_tokens)
            pool.remove(best)
            if best in extra:
                self._parts["practice"].insert(1, best)  # a problem may end with a question, an answer may not
            else:
                self._parts.setdefault("end", []).append(best)
            self.room -= count_tokens(best)
        middle = list(_MIDDLE)
        rng.shuffle(middle)
        parts = []
        for section in (*_FIRST, *middle, *_LAST):
            lines = self._parts.get(section, [])
            if section == "end" and lines:
                lines = [" ".join(lines)]
            if section in ("advice", "risk", "list") and lines:
                lines = [lines[0], "\n".join(lines[1:])]
            parts += lines
        return "\n\n".join([*parts, *([occasion.closing] if occasion.closing else [])])


@cache
def _shared_checks(texts: tuple[str, ...]) -> frozenset[str]:
    return frozenset(text for text, count in Counter(texts).items() if count > 1)


def _own_checks(bank: Bank, checks: Sequence[str]) -> list[str]:
    """The checks that no other topic of the bank has too: general remarks would come up in every other answer."""
    shared = _shared_checks(tuple(check for topic in bank.topics for check in topic.checks))
    return [check for check in checks if check not in shared]


def fact_note(fact: Fact, occasion: Occasion) -> str:
    """The fact restated for the user, with what can be computed from it."""
    state = fact.fill(fact.aspect.state, "you")
    state = capital(to_you(state) or state if _OWN.search(state) else state)
    lead = occasion.rng.choice(("For our plan: ", "To keep it in view: ", "Where things stand: ", "Noted: ", ""))
    note = f"{lead}{state[:1].lower() + state[1:] if lead and state.startswith(_SMALL) else state}."
    number, unit = fact.number, fact.aspect.unit
    earlier = fact.revises.number if fact.revises is not None else None
    if number is not None and earlier is not None and number != earlier:
        gap, way = abs(number - earlier), "more" if number > earlier else "less"
        name = "percentage points" if unit == "percent" else {"usd": "dollars"}.get(unit, unit)
        return f"{note} Compared with before, that is {gap} {name} {way}."
    if fact.day is not None:
        days = (fact.day - occasion.today).days
        if days > 1:
            return f"{note} Counted from today, that leaves {days} days."
        return f"{note} Counted from today, that was {-days} days ago." if days < -1 else note
    if number is not None and unit == "percent" and "Score" in fact.aspect.label and number < 100:
        return f"{note} That is {100 - number} percentage point{'' if number == 99 else 's'} short of full marks."
    if number is not None and unit == "minutes" and 0 < number < 60:
        return (
            f"{note} At that pace, two of them take {2 * number} minutes." if "Problem" in fact.aspect.label else note
        )
    if number is not None and unit == "pages" and "Length" in fact.aspect.label:
        return f"{note} Spread over five sittings, that comes to {decimal(Fraction(number, 5), 1)} pages per sitting."
    return note
