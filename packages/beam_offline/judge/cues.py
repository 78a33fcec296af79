"""Wordings that the judge looks for: an answer that abstains, names a conflict or asks; a nugget that wants this."""

from __future__ import annotations

import re
from typing import Final

ABSTAINS: Final = re.compile(
    r"\bno (?:\w+ ){0,3}(?:information|mention|record|records|details?|evidence|indication)\b"
    r"|\b(?:not|never|isn't|wasn't|aren't|weren't) (?:\w+ )?(?:specified|mentioned|provided|stated|listed|included|"
    r"discussed|described|recorded|available|given|documented|disclosed|shared|found|specify|mention|provide|state|"
    r"include|contain|describe|list|say)\b"
    r"|\b(?:doesn't|does not|do not|don't|didn't|did not) (?:\w+ )?(?:specify|mention|provide|state|include|contain|"
    r"describe|list|say|have|know|indicate|give|discuss|see|find|recall|remember)\b"
    r"|\b(?:cannot|can't|could not|couldn't|unable to) (?:\w+ )?(?:find|determine|answer|tell|say|confirm|locate)\b"
    r"|\b(?:not enough|insufficient|lack\w*|missing) (?:\w+ ){0,2}(?:information|details?|context|records?)\b",
    re.IGNORECASE,
)
ABSTAINS_WITHOUT_NEGATION: Final = frozenset(("unabl", "insuffici", "lack", "miss"))
"""Stems, one of which a clause without a negation has where it abstains."""

NO_INFORMATION: Final = re.compile(
    r"\bno information\b|\bthere is no (?:\w+ )?(?:mention|record|detail|breakdown)"
    r"|\b(?:not|doesn't) (?:\w+ )?(?:contain|provide|mention|include)\w* (?:any )?information\b",
    re.IGNORECASE,
)
CONFLICTING: Final = (
    "contradict", "conflict", "inconsisten", "discrepan", "mixed statements", "mixed signals", "mixed information",
    "opposite statements",
)  # fmt: skip
BOTH_SIDES: Final = ("however", "although", " but ", "while ", "other hand", "same time", "also said", "also mentioned")
ASKS_WHICH: Final = tuple(
    re.compile(wording)  # each begins with plain characters, which lets the search skip ahead
    for wording in (
        r"which (?:\w+ ){0,3}(?:is|are|was) (?:\w+ )?(?:correct|right|true|accurate|current)",
        r"which (?:one|statement|version)\b[^.?]{0,200}\?",
        r"clarif(?:y|ication)\b",
        r"confirm (?:which|whether|if)\b",
        r"let me know (?:which|whether|if)\b",
    )
)
RESOLVES: Final = (
    "authoritative",
    "most recent",
    "latest",
    "later",
    "resolution",
    "precedence",
    "reliable",
    "supersede",
)
ASKING_NUGGET: Final = re.compile(r"\bwhich (?:\w+ ){0,3}(?:is|are) (?:\w+ )?correct\b|\bclarif", re.IGNORECASE)
AVOID: Final = re.compile(
    r"^\W*(?:should )?(?:avoids?|not|does not|do not|doesn't|don't|must not|refrains? from|no|without|excludes?|never "
    r"(?:suggest|recommend)\w*)\b\s*(?P<what>.+)$",
    re.IGNORECASE | re.DOTALL,
)
PREFERRED: Final = re.compile(
    r"\b(?P<kept>prefer(?:red|s|ring)?\b[^.;!?]*?) (?:to|over|rather than|instead of|and not)\b[^.;!?]*", re.IGNORECASE
)
"""A preference as it is repeated to the user: what stands after it is turned down and not suggested."""
TURNED_DOWN: Final = re.compile(
    r"\b(?:avoid\w*|not|never|without|instead of|rather than|over|no|skip\w*|against|unlike|don't|doesn't|n't)\b",
    re.IGNORECASE,
)
LEADS_YES: Final = re.compile(r"\W*(?:yes|yeah|correct|indeed|you (?:have|did|had)\b(?! (?:never|not)))", re.IGNORECASE)
LEADS_NO: Final = re.compile(
    r"\W*(?:no\b|not\b|never\b|you (?:have|had|did|do|are|were) (?:not|never)|you (?:haven't|hadn't|didn't|don't|"
    r"aren't|weren't)|you['’]ve (?:never|not))",
    re.IGNORECASE,
)
DENIES: Final = re.compile(
    r"\b(?:not true|untrue|false|incorrect|wrong|not the case|no longer|the opposite|isn't so|not correct|not so"
    r"|none of (?:this|that|these|those|it|what|the)|nothing of the (?:kind|sort)|(?:nobody|no one) (?:\w+ ){0,2}said"
    r"|no truth|by no means|never happened|contrary|the reverse|myths?|fiction|hoax|nonsense|fabricated|inaccurate"
    r"|invented|mistaken|a mistake to|an error to|den(?:y|ied|ies|ying)|refuted?|disputed?)\b",
    re.IGNORECASE,
)
DENIES_WITHOUT_NEGATION: Final = frozenset(
    (
        "untru", "fals", "incorrect", "wrong", "opposit", "contrari", "revers", "myth", "fiction", "hoax", "nonsens",
        "fabric", "inaccur", "invent", "mistaken", "mistak", "error", "deni", "refut", "disput",
    )
)  # fmt: skip
HEDGES: Final = (
    "might or might", "may or may", "perhaps", "maybe", "possibly", "guess", "not sure", "unsure", "not certain",
    "uncertain", "cannot say", "can't say", "could be wrong", "something else", "or not", "no idea", "who knows",
    "hard to say", "hard to tell",
)  # fmt: skip
"""Wordings of one who does not commit himself."""
YES_NO: Final = ("have i", "did i", "do i", "am i", "was i", "has ", "is ", "are ", "had i")

FORMS: Final = tuple(
    (asked, re.compile(shown, re.IGNORECASE | re.DOTALL | re.MULTILINE))
    for asked, shown in (
        (("code block", "code snippet", "code example", "syntax highlight", "syntax-highlight", "actual code"), r"```"),
        (("bullet",), r"^[ \t]*[-*•][ \t]"),
        (("percent", "%"), r"%|percent"),
        (("$", "cost", "pric", "amount", "budget", "fee"), r"[$€£₹¥] ?\d|\d ?(?:dollars|euros|USD|EUR|TRY|TL)\b"),
        (("version",), r"v?\d+\.\d+|(?:ES|HTML|CSS)\d+|v\d+\b"),
        (("24-hour", "am/pm"), r"\b(?:[01]?\d|2[0-3]):[0-5]\d\b(?!\s*[ap]\.?m)"),
        (("step", "sequential", "in order", "numbered"), r"^[ \t]*(?:\*\*)?(?:step )?\d+[.):]|\bstep 1\b"),
        (("specific number", "exact number", "numeric", "quantit", "figures", "numbers"), r"\d"),
        (("table", "column"), r"^[ \t]*\|.+\|"),
        (("formula", "equation", "algebra", "derivation", "symbolic"), r"[=≈∫√∂^]"),
        (("example", "sample", "concrete"), r"for example|e\.g\.|example|such as|for instance"),
    )
)
"""What a nugget can ask of an answer's form, by its words, and what shows it."""

FORM_WORDS: Final = tuple((number, word) for number, (words, _) in enumerate(FORMS) for word in words)
"""The words of each of them, by its number."""
