"""Mathematics in a conversation: the problem that a user shares, and the assistant's answer to a message.

A problem is quoted with a number, from which the answer's writer gets the very same problem back (`problems_registry`),
so that the working, the mistake that is found and the check all belong to the numbers of the message.
"""

from __future__ import annotations

from collections.abc import Sequence

from beamlib.generate.author.facts import Occasion
from beamlib.generate.author.mathematics_text import Page
from beamlib.generate.author.problems_base import Problem
from beamlib.generate.author.problems_registry import GENERATORS, NUMBERS, Exercise, exercise, find

SUITED: dict[str, tuple[str, ...]] = {
    "Partial Differential Equations (PDEs) in Depth": (
        "heat_modes", "transport", "sine_series", "classify", "separable", "second_order", "repeated_or_complex",
    ),
    "Functional Analysis and Infinite-Dimensional Spaces": (
        "lp_norms", "geometric_norm", "diagonal_operator", "orthogonal_polynomial", "sine_series", "geometric_series",
    ),
    "Solving Ordinary Differential Equations (ODEs)": (
        "separable", "linear_first_order", "second_order", "repeated_or_complex", "by_parts", "product_rule",
    ),
    "Deep Dive into Number Theory": (
        "euclid", "modular_inverse", "chinese_remainder", "fermat", "induction_divides",
    ),
    "Advanced Probability and Combinatorics": (
        "committee", "anagrams", "bayes", "without_replacement", "binomial", "expectation",
    ),
    "Exploring Non-Euclidean Geometry": ("spherical_area", "hyperbolic_area", "hyperbolic_distance"),
    "Studying Multivariable Calculus": (
        "gradient", "double_integral", "saddle", "chain_rule", "definite_integral", "extrema",
    ),
    "Diving into Analytic Geometry": (
        "line_through", "point_to_line", "circle_center", "ellipse", "parabola", "hyperbola",
    ),
    "Developing Skills in Mathematical Induction": (
        "induction_sum", "induction_divides", "arithmetic_series", "geometric_sum",
    ),
    "Exploring Conic Sections in Depth": ("circle_center", "ellipse", "parabola", "hyperbola", "point_to_line"),
    "Understanding Sequences and Series": (
        "arithmetic_series", "geometric_sum", "geometric_series", "induction_sum", "geometric_norm",
    ),
    "Mastering Basic Differential Calculus": ("tangent", "chain_rule", "product_rule", "extrema"),
    "Exploring the Geometry of Triangles": ("law_of_cosines", "heron", "sine_rule", "line_through", "double_angle"),
    "Understanding the Basics of Probability": (
        "without_replacement", "binomial", "expectation", "committee", "anagrams", "bayes", "fraction_sum",
    ),
    "Mastering Algebraic Equations for Everyday Problem Solving": (
        "linear_equation", "linear_system", "quadratic", "percent_change", "percent_reverse",
    ),
    "Learning the Foundations of Trigonometry": ("sine_rule", "law_of_cosines", "double_angle", "heron"),
    "Mastering Fractions, Decimals, and Percentages": (
        "fraction_sum", "percent_change", "percent_reverse", "linear_equation",
    ),
}  # fmt: skip
"""Which generators suit a title of Table 5; every other title may draw from all of them."""

_QUOTE = (
    "I am on exercise {ref}: {statement}", "Exercise {ref} says: {statement}", "This is number {ref}: {statement}",
    "I have been sitting over problem {ref}. {statement}", "Here is problem {ref} from my notes. {statement}",
    "The task is {ref}: {statement}", "Today I looked at exercise {ref}. {statement}",
    "My worksheet has this as {ref}: {statement}",
)  # fmt: skip
_CHECK = (
    "Is that right, or did I slip somewhere?", "Can you check each step before I hand it in?",
    "Does every step hold?", "Could you look for a mistake in this?",
    "I am not sure I trust this. Where would you object?", "Please go through it line by line with me.",
    "Would you accept this as a full solution?", "Something feels off; can you see what?",
)  # fmt: skip
_NEXT = (
    "What would be the next step?", "I do not see how to go on from there.", "How do I get from here to the end?",
    "Could you show me what comes next and why?", "Now I am stuck; what should I try?",
    "What am I supposed to do with that now?", "I lose the thread at this point. Can you pick it up?",
)  # fmt: skip
_SOLVE = (
    "Could you work it out with me step by step?", "I have no idea how to begin. Can you show the whole way?",
    "How would you solve this, with every step?", "Please show me the working and how to check the result.",
    "I would like to see a clean solution that I can learn from.", "Where do I even start, and what comes after that?",
    "Can you solve it slowly and say why each step is allowed?",
)  # fmt: skip
_RESULT = ("My result: {answer}.", "So my result is this: {answer}.", "What I end up with: {answer}.",
           "That leaves me with the following: {answer}.")  # fmt: skip
_VERDICT = {
    "slip": (
        "Good attempt, and the plan behind it is sound; one step needs to be repaired.",
        "You are close. There is one mistake, and it is a common one.",
        "Most of this is fine, but the result is not right yet.",
        "I can see the idea, and it works once one step is put right.",
        "There is a slip in it. Once it is fixed, the rest goes through.",
    ),
    "right": (
        "Your result is right, and so is the way you got there.",
        "Yes, this holds. I checked each step against my own working.",
        "Well done: every step is allowed and the result is correct.",
        "No mistake here. I would hand it in like this.",
        "This is correct. Below is the same solution written out, so you can compare the wording.",
    ),
    "stuck": (
        "You have begun in the right way; here is how it goes on.",
        "What you have so far is correct, so we can build on it.",
        "Your first step is the one I would take too. Let us go on from there.",
        "Good start. The rest follows from what you already wrote.",
    ),
    "solve": (
        "Let us take this one step at a time.",
        "Here is the whole way, with a reason for each step.",
        "This one becomes short once it is set up properly.",
        "We can solve it with the standard method; I will say at each point why it applies.",
        "Gladly. I will keep the steps small so that you can repeat them on your own.",
    ),
}


_EXAMPLE = (
    "To have numbers in front of us, here is a problem on {skill}.",
    "I will show what I mean on a problem; it is about {skill}.",
    "The following problem from the same field can serve as a test case; it is about {skill}.",
    "Take this problem on {skill} and look at the lines with your question in mind.",
)
_EXAMPLE_OF = {
    "Conceptual Understanding": "An example says more than a definition. This one is about {skill}.",
    "Problem Solving Strategies": "Here is the routine on a real problem, about {skill}.",
    "Error Analysis": "Watch for the line where one could slip in this problem on {skill}.",
    "Mathematical Notation": "This is how I would write a solution down; the problem is about {skill}.",
    "Practice and Progress": "A problem of the right size for one sitting, on {skill}.",
    "Proofs and Arguments": "Look at how each line gets its reason in this problem on {skill}.",
    "Visual Thinking": "Sketch the situation before you read the working of this problem on {skill}.",
    "Exam Preparation": "A problem that could stand in a mock exam, on {skill}.",
    "Tests and Feedback": "A quiz question with the working that would get full marks, on {skill}.",
    "Tutoring and Getting Help": "Suppose you bring this problem on {skill} to a session and ask about one line only.",
    "Study Group": "A problem on {skill} that suits a group, since each can explain one step.",
    "Reading Mathematics": "Read this problem on {skill} with the solution covered, line by line.",
    "Explaining and Presenting": "This problem on {skill} is short enough to be shown to others.",
    "Online Courses and Tools": "Do this one by hand and let a tool check the last line; it is about {skill}.",
    "Goals and Motivation": "A first small step could be this problem on {skill}.",
}
_EXAMPLE_NEXT = (
    "A second one, on {skill}:",
    "And for contrast, one about {skill}:",
    "Another one, about {skill}:",
    "The same kind of thinking once more, with {skill}:",
)


def generators_for(title: str) -> tuple[str, ...]:
    """Names of the problem generators that suit a title; all of them where the title is not of Table 5."""
    return SUITED.get(title, tuple(GENERATORS))


def _said(clauses: Sequence[str]) -> str:
    """The user's steps as one sentence: `First I ..., then I ..., and finally I ...`."""
    words = ["First", *["then" if index % 2 else "after that" for index in range(1, len(clauses))]]
    if len(clauses) > 2:
        words[-1] = "and finally"
    return ", ".join(f"{word} {clause}" for word, clause in zip(words, clauses, strict=True)) + "."


def _work(problem: Problem, form: str, done: int) -> list[str]:
    """What the user has written down, as clauses, in the form's way."""
    if form == "slip":
        return [*(step.said for step in problem.steps[: problem.slip.at]), problem.slip.said]
    return [step.said for step in problem.steps[: len(problem.steps) if form == "right" else done]]


def math_question(occasion: Occasion) -> str:
    """The part of a user message that shares mathematics: work to be checked (right or with one mistake), a solution
    begun, or a problem without work. It quotes the problem in a way from which the answer finds it again."""
    rng = occasion.rng
    chosen = exercise(rng.choice(generators_for(occasion.title.title)), rng.choice(NUMBERS))
    problem = chosen.problem
    form = rng.choice(("slip", "slip", "right", "stuck", "solve"))
    parts = [rng.choice(_QUOTE).format(ref=chosen.reference, statement=problem.statement)]
    if form != "solve":
        parts.append(_said(_work(problem, form, 1 + (len(problem.steps) > 2 and rng.random() < 0.4))))
    if form in ("slip", "right"):
        answer = problem.slip.wrong if form == "slip" else problem.answer
        parts.append(rng.choice(_RESULT).format(answer=answer))
    parts.append(rng.choice({"stuck": _NEXT, "solve": _SOLVE}.get(form, _CHECK)))
    return " ".join(parts)


def form_of(question: str, problem: Problem) -> str:
    """How a message shares `problem`: `slip`, `right`, `stuck` or `solve`."""
    if problem.slip.said in question:
        return "slip"
    if all(step.said in question for step in problem.steps):
        return "right"
    return "stuck" if problem.steps[0].said in question else "solve"


def write_math_answer(occasion: Occasion) -> str:
    """The assistant's answer to `occasion.question`, `occasion.target` tokens long within 5 % (from 200 tokens on).

    A problem quoted in the message is worked with its own numbers; without one, an example that suits the title may
    be worked. A question of the topic (`occasion.asked`) gets the topic's answer, near the beginning. Facts come only
    from `occasion.fact`. It ends with `occasion.closing` where that is not empty.
    """
    page = Page(occasion)
    quoted = find(occasion.question)
    used: list[Exercise] = []
    if quoted is not None:
        form = form_of(occasion.question, quoted.problem)
        page.verdict(quoted.problem, form, occasion.rng.choice(_VERDICT[form]))
        page.fact()
        page.direct(second=True)
        page.working(quoted.problem, form)
        used.append(quoted)
    else:
        page.opening()
        page.fact()
        page.direct(second=False)
        # One example before any advice: numbers say more than a list.
        if page.room > 260:
            used.append(_other(occasion, occasion.rng.choice(generators_for(occasion.title.title)), used))
            page.example(used[-1].problem, _lead(occasion, used[-1].problem, page.worked), slip=True)
    page.advice(0.3 if quoted is None else 0.5)
    _practice(page, occasion, used)
    page.checklist()
    more = [_other(occasion, name, used).problem for name in generators_for(occasion.title.title)[:3]]
    return page.text(more)


def _lead(occasion: Occasion, problem: Problem, worked: int) -> str:
    """What introduces a worked example; `worked` is how many the answer has shown before."""
    suited = [_EXAMPLE_OF[occasion.topic.label]] * 3 if occasion.topic.label in _EXAMPLE_OF else []
    if worked:
        return _EXAMPLE_NEXT[worked % len(_EXAMPLE_NEXT)].format(skill=problem.skill)
    return occasion.rng.choice([*_EXAMPLE, *suited]).format(skill=problem.skill)


def _practice(page: Page, occasion: Occasion, used: list[Exercise]) -> None:
    """More problems where there is room: a variation with its answer, then examples worked in full."""
    rng = occasion.rng
    names = generators_for(occasion.title.title)
    if used:
        used.append(_other(occasion, used[0].name, used))
        page.variation(used[-1].problem)
    while page.room > 260 and len(used) < 6:
        # Another kind of problem each time, as far as the title has any: its mistake is told only once.
        done = {one.name for one in used}
        found = _other(occasion, rng.choice([name for name in names if name not in done] or names), used)
        used.append(found)
        if not page.example(found.problem, _lead(occasion, found.problem, page.worked), slip=found.name not in done):
            break
    for _ in range(4):
        if page.room > 40:
            used.append(_other(occasion, rng.choice(names), used))
            page.variation(used[-1].problem)


def _other(occasion: Occasion, name: str, used: Sequence[Exercise]) -> Exercise:
    """A problem of the generator `name` whose statement none of `used` has."""
    while True:
        found = exercise(name, occasion.rng.choice(NUMBERS))
        if all(found.problem.statement != one.problem.statement for one in used):
            return found
