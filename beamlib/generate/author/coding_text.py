"""Phrases around code in the user's messages and the assistant's answers."""

from __future__ import annotations

from collections.abc import Mapping

SHOW_BROKEN = (
    "Here is what I have:",
    "This is the part in question:",
    "The code so far:",
    "I boiled it down to this:",
    "Here is the piece that worries me:",
    "I wrote this last night:",
    "This is all it takes to see the problem:",
    "My current version:",
    "I have cut it down as far as I could:",
    "That is the function as it stands:",
)
SHOW_SLOW = (
    "This works, but it is slow:",
    "Here is a part that does its job and takes its time:",
    "My first version, correct and sluggish:",
    "The profiler points at this:",
    "It gives the right result, only far too late:",
    "I would like to speed this up:",
)
SHOW_WORKING = (
    "This works and I would like a second opinion:",
    "Before I merge it, here is the code:",
    "This passed my quick try:",
    "I think this one is done:",
    "Here is what I am about to commit:",
)
FAILS = (
    "It fails with `{error}` on line {line}.",
    "Line {line} gives me `{error}`.",
    "When I run it I get `{error}`, line {line}.",
    "The message is `{error}` and it points at line {line}.",
    "It stops on line {line} with `{error}`.",
    "As soon as real data comes in, line {line} ends in `{error}`.",
    "All I see is `{error}`, coming from line {line}.",
)
ASK_FIX = (
    "What am I missing?",
    "How do I fix it properly?",
    "Why does that happen?",
    "Can you explain the cause and correct it?",
    "I would like to understand it and not only patch it.",
    "Where is my mistake?",
    "Please fix it without changing the names.",
    "I must be overlooking something simple.",
    "What would a correct version look like?",
    "",
)
ASK_FASTER = (
    "How can I make it faster?",
    "What would you change?",
    "Is there a better way with the same result?",
    "Can you improve it without adding a library?",
    "Why is it slow, and what would be quicker?",
    "Please make it scale a little better.",
)
ASK_REVIEW = (
    "Could you review it?",
    "Would you change anything before I merge it?",
    "Which test would you add?",
    "Be picky, please.",
    "What could still go wrong with it?",
)
ASK_WANTED = (
    "I need {wanted}. Can you write it in {language}?",
    "For {goal} I am looking for {wanted}. {language}, please.",
    "Could you write {wanted}? {language} would be best.",
    "What I want is {wanted}. How would that look in {language}?",
    "Next on my list: {wanted}. I would like a small {language} version that I can test.",
    "Please help me with {wanted}, in plain {language}.",
)

FIXED = (
    "The corrected version keeps your names:",
    "This is the smallest change that cures it:",
    "With that repaired:",
    "So the fix looks like this:",
    "Here is the same code without the mistake:",
    "Changed as little as possible:",
    "This version does what you meant:",
)
FASTER = (
    "This does the same work faster:",
    "I would write it like this:",
    "Same result, less work:",
    "A quicker version with the same names:",
    "Here is a variant that scales better:",
)
REVIEWED = (
    "It reads well and does what it should. This is how I would commit it:",
    "No objections to the logic. The version I would merge:",
    "I went through it line by line, and this is what I would keep:",
    "The code is sound. For reference, the version to merge:",
)
WRITTEN = (
    "Here is a version that does this:",
    "A small version to begin with:",
    "This should do it:",
    "I would start from this:",
    "The plain way to write it:",
)
WHY = (
    "The cause is this: ",
    "What happens here: ",
    "The reason behind it: ",
    "Here is what goes wrong: ",
    "The root of it: ",
    "What you see comes from this: ",
)
GAIN = ("The difference: ", "Why it helps: ", "Where the time went: ", "What this saves: ")
TESTED = (
    "A test that fails with the old habit and passes now:",
    "To be sure, a test:",
    "This is how I would check it:",
    "Keep this next to the code as a test:",
    "A few lines to verify it:",
    "Run this against it:",
)
EXAMPLE: Mapping[str, tuple[str, ...]] = {
    "Testing Strategy": (
        "As an example of a small test, take {wanted}:",
        "What a test can look like, for {wanted}:",
    ),
    "Performance and Profiling": (
        "An example of what a profiler tends to find, {wanted}:",
        "A typical case is {wanted}, written in the slow way:",
    ),
    "Debugging and Error Handling": (
        "A typical case is {wanted}:",
        "An example of how such a mistake looks, {wanted}:",
    ),
    "Refactoring and Code Quality": (
        "A piece to see how much a small change can do, {wanted}. Before:",
        "Take {wanted} as an example. The first version, with a hidden fault:",
    ),
    "Version Control and Code Review": (
        "Something to practise a review on: {wanted}. One line should not pass:",
        "In a review I would stop at code like this, {wanted}:",
    ),
    "Learning and Skills": (
        "A short exercise: find the mistake in this before you read on. It is meant to be {wanted}:",
        "To practise, predict what this does; it should be {wanted}:",
    ),
    "": (
        "Something from your own kind of code to try it on: {wanted}. First as it often looks:",
        "To keep this close to code, take {wanted}. A version with a typical mistake:",
        "A small case from such a project is {wanted}. Written in a hurry, it looks like this:",
    ),
}
"""Leads to an example by topic; the entry without a label serves all other topics."""
EXAMPLE_MORE = (
    "One more piece of code to look at, {wanted}:",
    "If you like a second case from the same field, take {wanted}:",
    "Another place where this can be tried out is {wanted}:",
    "For practice, look at {wanted}. What would you change?",
    "A different example from such a project, {wanted}:",
)
CORRECTED = (
    "Corrected:",
    "So it becomes:",
    "The version to keep:",
    "With that put right:",
    "The cure:",
    "So I would write:",
    "Without the fault:",
    "That leads to this:",
)
OTHER_QUESTION = (
    "On your other question:",
    "As for the second point:",
    "And to what you asked besides:",
    "To your question at the end:",
)
NEXT_QUESTIONS = (
    "Two questions that usually come next:",
    "What tends to be asked after that:",
    "While we are at it, two questions that belong here:",
    "Closely related:",
)
LAST = (
    "And {check}.",
    "Do not forget to {check}.",
    "Before you stop, {check}.",
    "It also pays to {check}.",
    "When that is done, {check}.",
    "At the end, {check}.",
)
TRAP = (
    "One trap is worth knowing here: ",
    "A word on why it is written like this: ",
    "The usual mistake comes from this: ",
)
STEPS = (
    "In this order:",
    "What I would do next:",
    "Concrete steps:",
    "A possible order of work:",
    "Step by step:",
    "My plan would be:",
    "To get moving:",
)
CHECKLIST = (
    "Before you call it done:",
    "A short checklist:",
    "Worth ticking off:",
    "For the end of the day:",
    "Last checks:",
    "To look at once more:",
)
RISK = (
    "What could get in the way, and what helps:",
    "Things that go wrong here now and then:",
    "I would be ready for these:",
    "Known pitfalls and the way out:",
    "If there is trouble, it usually looks like this:",
)
FURTHER = (
    "A related point: {about}.",
    "This also touches another subject: {about}.",
    "While you are at it, think about {about}.",
    "Next to this stands {about}.",
    "One step further lies {about}.",
    "That leads to {about}.",
    "It is worth a look at {about}, too.",
)
RECALL = (
    "Keep in mind that {state}.",
    "This goes together with what you told me: {state}.",
    "From earlier I have noted that {state}.",
    "It matters here that {state}.",
    "As you said before, {state}.",
    "My notes also say that {state}.",
)

_PLAIN = (
    "Let us take {about} step by step.",
    "For {about} I would start small.",
    "This is a good moment to look at {about} again.",
    "There is a short answer for {about} and a longer one.",
    "With {about} the order of things matters most.",
    "I would treat {about} like any other piece of work: one change, one check.",
    "On {about} I would begin with what can be verified.",
    "Here is how I would go about {about}.",
    "Several roads lead there with {about}; this is the one I would take.",
    "Most is won if {about} stays simple.",
)
_SHORT = (
    "",
    "Thanks for the details.",
    "That is a clear description.",
    "Good, that helps.",
    "Let us look at {about}.",
    "I see what you mean about {about}.",
    "This fits {about} well.",
    "Thanks, I have what I need for {about}.",
)
LEAD: Mapping[str, tuple[str, ...]] = {
    "code": (*_SHORT, "", "", "I can see it in the code.", "The code says it all.", "That is a common one."),
    "introduction": (
        "Welcome. Let us get {goal} under way.",
        "Nice to meet you. I am glad to help with {goal}.",
        "Good to have you here, and {goal} sounds like a fine project.",
    ),
    "fact": _SHORT,
    "update": (
        "Noted, I will work with the new state.",
        "Thanks for the update.",
        "Good that you told me.",
        "I have changed it in my notes.",
    ),
    "contradiction": (
        "Let us look at what {about} needs from here.",
        "For {about} I would go on like this.",
        "Here is what I would do about {about} now.",
        "All right, let us go through {about} together.",
    ),
    "preference": ("Good to know, I will take that into account.", "That is a sensible way to work."),
    "instruction": ("Understood, I will do it that way from now on.",),
    "dig": _PLAIN,
    "asked": (
        "",
        "",
        "",
        "For {about} this is worth settling early.",
        "I have thought about that for {about}.",
        "A question that decides a lot in {about}.",
        "That comes up in most projects like {goal}.",
        "Let me answer that first.",
    ),
    "reply": (
        "Thanks, that helps with {about}.",
        "That answers it.",
        "Good, then we can be more specific about {about}.",
        "All right, that narrows it down.",
        "With that I can say more about {about}.",
        "Fair enough, let us work with that.",
    ),
    "followup": (
        "It depends a little, but for {about} there is a usual answer.",
        "Good point, and worth settling now.",
        "In short: probably, as long as it can be tested.",
        "Let me add that for {about}.",
        "That is the right thing to ask at this stage.",
        "Here I would stay careful with {about}.",
        "A fair question about {about}.",
    ),
}
ABOUT_FACT: Mapping[str, tuple[str, ...]] = {
    "quantity": (
        "I have noted that {state}.",
        "So {state}; that gives us a number to go by.",
        "{State}, then, and I will keep that number in mind.",
        "That {state} is useful to know.",
    ),
    "past": (
        "I have noted that {state}.",
        "Good to have that on record: {state}.",
        "So {state}, which helps to put things in order.",
    ),
    "date": (
        "With {value} in the calendar, I would keep the last two days free of new work.",
        "{value} is a fixed point to plan around: {state}.",
        "I have noted that {state}.",
    ),
    "person": (
        "It helps that {state}, since a second pair of eyes finds other mistakes.",
        "Good that {state}; agree early on what the two of you look at.",
        "I have noted that {state}.",
    ),
    "choice": (
        "{State}, and that is a sound reason.",
        "The choice is clear then: {state}.",
        "I will build on that: {state}.",
    ),
    "event": (
        "{State}, so that point is done.",
        "With that, {state}, and one item is off the list.",
        "Good: {state}.",
    ),
}
