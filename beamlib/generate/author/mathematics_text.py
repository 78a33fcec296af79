"""The page that an answer in mathematics is composed on: sections in order, and a length that is kept."""

from __future__ import annotations

import re
from fractions import Fraction

from beamlib.generate.author.facts import Fact, Occasion
from beamlib.generate.author.problems_base import Problem, decimal
from beamlib.text import count_tokens

_TOLERANCE = 0.03
_ORDER = ("opening", "fact", "working", "check", "example", "advice", "tip", "risk", "list", "practice", "end")
_HEADS = {
    "working": ("### Working", "### Step by step", "### Solution", "### The full way"),
    "check": ("### Check", "### Does it hold?", "### Verification"),
    "advice": ("### What I would do next", "### How to work on this", "### Next steps", "### For the coming days"),
    "risk": ("### What can go wrong", "### Where people stumble", "### Watch out for"),
    "list": ("### Checklist", "### Before you close the notebook", "### Short list"),
    "practice": ("### To practise", "### Your turn", "### Try it yourself"),
    "example": ("### A worked example", "### One more example", "### The same kind of thinking in an example"),
}
_OPEN = (
    "Here is how I would go about it.",
    "Good that you bring this up now.",
    "There is a calm way through this.",
    "Let me sort this a little.",
    "This is worth a careful answer.",
    "I would keep it simple.",
    "Let us look at it in order.",
    "That is a fair thing to ask at this stage.",
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
_ENDS = (
    "Take your time with it.",
    "Write each step on its own line.",
    "Say the reason for a step aloud.",
    "Keep your first attempt.",
    "Small steps are fine.",
    "A sketch often helps here.",
    "Come back to it tomorrow.",
    "It gets easier with repetition.",
    "Close the book and try it once more from memory.",
    "If a step feels doubtful, test it with small numbers.",
    "Speed comes later; clean steps come first.",
    "Mark the line where you hesitated, and look at it again tomorrow.",
    "A short explanation in your own words shows best whether the idea has settled.",
    "When the result surprises you, estimate first and compare the estimate with what you computed.",
    "It is worth keeping a page of your own mistakes, since most of them come back in the same form.",
    "Ten quiet minutes on one hard line teach more than an hour of copying solutions that somebody else wrote.",
    "Read the task twice before you start, and underline what is given and what is wanted.",
    "Try to name the rule behind every line; where you cannot, that is the place to read up on.",
    "Rest counts too.",
    "That is enough for one sitting.",
    "Check the signs once more.",
    "Good notation saves time.",
    "Numbers that fit too well or too badly are both a reason to look again.",
)
_REASONS = (
    "Why I say this: {0}. Besides, {1}, and {2}.",
    "Three things speak for it: {0}; {1}; and {2}.",
    "The thought behind all this is that {0}. It also counts that {1}. And finally, {2}.",
    "It helps to keep in mind that {0}, that {1}, and that {2}.",
)
_PRACTICE = (
    "A variation:",
    "Try this one without looking back:",
    "For practice:",
    "A similar problem:",
    "To do on your own:",
    "With other numbers:",
)
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
        self._occasion = occasion
        self._rng = occasion.rng
        self._parts: dict[str, list[str]] = {}
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
        """A first paragraph for messages without a problem: what was said, and the topic's shortest advice."""
        occasion, rng = self._occasion, self._rng
        lead = rng.choice(_OPENINGS[occasion.purpose]).format(name=occasion.profile.name)
        topic = occasion.topic
        thing = occasion.thing.name if occasion.thing is not None else occasion.title.goal
        action, other = (occasion.fill(text) for text in rng.sample(topic.actions, 2))
        body = rng.choice(
            (
                "For {thing}, the first thing is to {action}. After that, {other}.",
                "With {thing} in view, the useful thing is to {action}, and then to {other}.",
                "When it comes to {occasion}, it pays to {action}. The second thing I would suggest: {other}.",
                "My short answer for {thing}: {action}, and {other}.",
                "In short, {action}. If there is time left for {thing}, {other}.",
            )
        ).format(thing=thing, action=action, other=other, occasion=topic.occasion)
        self._add("opening", f"{lead} {body}", must=True)

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
        return self._add("practice", f"{lead} {problem.statement}\n\nFor comparison afterwards: {problem.answer}.")

    def example(self, problem: Problem) -> bool:
        """A problem worked in full, if it fits."""
        lines = [f"**Example on {problem.skill}.** {problem.statement}"]
        lines += [f"{n}. **{step.title}.** {step.text}" for n, step in enumerate(problem.steps, start=1)]
        lines.append(f"**Result:** {problem.answer}. {problem.check}")
        return self._add("example", "\n\n".join(lines))

    def advice(self) -> None:
        """The topic's actions, background, risks and checks, as many as the length wants."""
        occasion, rng, topic = self._occasion, self._rng, self._occasion.topic
        share = 0.45 if occasion.target < 700 else 0.62
        keep = int(self.room * share)
        wanted = [("advice", f"- {capital(occasion.fill(text))}.") for text in rng.sample(topic.actions, 6)]
        why = [occasion.fill(text) for text in rng.sample(topic.reasons, 3)]
        wanted.append(("tip", rng.choice(_REASONS).format(*why)))
        wanted += [("tip", occasion.fill(tip)) for tip in rng.sample(topic.tips, len(topic.tips))]
        wanted += [("risk", f"- {capital(occasion.fill(risk))}.") for risk in rng.sample(topic.risks, 4)]
        wanted += [
            ("list", f"- [ ] {capital(occasion.fill(check))}") for check in rng.sample(topic.checks, len(topic.checks))
        ]
        groups = ["advice", "tip", "risk", "list"]
        rng.shuffle(groups)
        for section in groups:
            for name, text in wanted:
                if name == section and self.room > keep:
                    self._add(name, text)

    def text(self) -> str:
        """The page as text, filled up with short remarks to the wanted length."""
        ends = self._rng.sample(_ENDS, len(_ENDS))
        topic = self._occasion.topic
        if "list" not in self._parts:
            ends[:0] = [capital(self._occasion.fill(check)) + "." for check in self._rng.sample(topic.checks, 3)]
        for text in ends:
            if self.room <= self._slack:
                break
            self._add("end", text)
        parts = []
        for section in _ORDER:
            lines = self._parts.get(section, [])
            if section == "end" and lines:
                lines = [" ".join(lines)]
            if section in ("advice", "risk", "list") and lines:
                lines = [lines[0], "\n".join(lines[1:])]
            parts += lines
        return "\n\n".join([*parts, *([self._occasion.closing] if self._occasion.closing else [])])


def fact_note(fact: Fact, occasion: Occasion) -> str:
    """The fact restated for the user, with what can be computed from it."""
    state = capital(fact.fill(fact.aspect.state, "you"))
    lead = occasion.rng.choice(("For our plan: ", "To keep it in view: ", "Where things stand: ", "Noted: ", ""))
    note = f"{lead}{state[:1].lower() + state[1:] if lead and state.startswith(('The ', 'Your ')) else state}."
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
