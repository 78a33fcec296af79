"""Wordings that the judge looks for: an answer that abstains, names a conflict or asks; a nugget that asks for these."""

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
    r"|\b(?:not enough|insufficient|lack\w*|missing) (?:\w+ ){0,2}(?:information|details?|context|records?)\b"
    r"|\bI (?:don't|do not) know\b",
    re.IGNORECASE,
)
NO_INFORMATION: Final = re.compile(
    r"\bno information\b|\bthere is no (?:\w+ )?(?:mention|record|detail|breakdown)"
    r"|\b(?:not|doesn't) (?:\w+ )?(?:contain|provide|mention|include)\w* (?:any )?information\b",
    re.IGNORECASE,
)
CONFLICT: Final = re.compile(
    r"contradict|conflict|inconsisten|discrepan|mixed (?:statements|signals|information)|opposite statements",
    re.IGNORECASE,
)
BOTH_SIDES: Final = re.compile(
    r"\b(?:however|although|but|yet|while|on the other hand|at the same time|also (?:said|mentioned|stated|noted))\b",
    re.IGNORECASE,
)
ASKS_WHICH: Final = re.compile(
    r"\bwhich (?:\w+ ){0,3}(?:is|are|was) (?:\w+ )?(?:correct|right|true|accurate|current)"
    r"|\bwhich (?:one|statement|version)\b[^.]*\?|\b(?:clarify|clarification|confirm (?:which|whether|if)|"
    r"let me know (?:which|whether|if))\b",
    re.IGNORECASE,
)
RESOLVES: Final = re.compile(
    r"\b(?:authoritative|most recent|latest|later|resolution|takes precedence|more reliable|supersede)", re.IGNORECASE
)
ASKING_NUGGET: Final = re.compile(r"\bwhich (?:\w+ ){0,3}(?:is|are) (?:\w+ )?correct\b|\bclarif", re.IGNORECASE)
AVOID: Final = re.compile(
    r"^\W*(?:should )?(?:avoids?|not|does not|do not|doesn't|don't|must not|refrains? from|no|without|excludes?|never "
    r"(?:suggest|recommend)\w*)\b\s*(?P<what>.+)$",
    re.IGNORECASE | re.DOTALL,
)
LEADS_YES: Final = re.compile(r"\W*(?:yes|yeah|correct|indeed|you have\b|you did\b|you've\b(?! (?:never|not)))", re.I)
LEADS_NO: Final = re.compile(
    r"\W*(?:no\b|not\b|never\b|you (?:have|had|did|do|are|were) (?:not|never)|you (?:haven't|hadn't|didn't|don't|aren't|"
    r"weren't)|you['’]ve (?:never|not))",
    re.I,
)
DENIES: Final = re.compile(
    r"\b(?:not true|untrue|false|incorrect|wrong|not the case|no longer|the opposite|isn't so|not correct|not so)\b", re.I
)
I_VOICE: Final = re.compile(r"\b(?:I|I'm|I've|I'd|I'll|my|mine)\b")
YOU_VOICE: Final = re.compile(r"\b(?:you|your|yours|you're|you've|you'd|you'll)\b", re.I)
THIRD_VOICE: Final = re.compile(r"\bthe (?:user|assistant)\b|\b(?:user|assistant|human|ai)\s*:", re.I)
ITEM: Final = re.compile(r"^[ \t]*(?:[-*•–]|\d+[.)])[ \t]+", re.M)
DATED_TURN: Final = re.compile(r"\[(?:[^\]\n]{0,40}\d{4}[^\]\n]{0,20}|\w+ ?\d+)\]|^#+ ", re.M)

FORMS: Final = tuple(
    (re.compile(asked, re.IGNORECASE), re.compile(shown, re.IGNORECASE | re.DOTALL | re.MULTILINE))
    for asked, shown in (
        (r"\bcode (?:blocks?|snippets?|examples?)\b|\bsyntax[- ]highlight|\bactual code\b", r"```"),
        (r"\bbullet(?:ed)?[- ]?(?:points?|lists?)?\b", r"^[ \t]*[-*•][ \t]"),
        (r"\bpercent|%", r"\d ?%|\bpercent"),
        (r"\bdates?\b|\bmonth|\bdeadline", r"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\w*\.? \d|\d{4}-\d\d-\d\d"),
        (r"\b(?:costs?|price|pricing|amounts?|budget|fee)s?\b", r"[$€£₹¥] ?\d|\d ?(?:dollars|euros|USD|EUR|TRY|TL)\b"),
        (r"\bversion", r"\bv?\d+\.\d+|\b(?:ES|HTML|CSS)\d+|\bv\d+\b"),
        (r"\b(?:numeric|status|error) codes?\b", r"\b[1-5]\d\d\b"),
        (r"\b24-hour\b|\bno AM/PM\b", r"\b(?:[01]?\d|2[0-3]):[0-5]\d\b(?!\s*[ap]\.?m)"),
        (r"\btimes?\b|\bhours?\b|\bclock\b", r"\b\d{1,2}(?::\d\d)? ?(?:[ap]\.?m)|\b\d{1,2}:\d\d\b|\b\d+ (?:hours?|minutes?)"),
        (
            r"\bstep[- ]by[- ]step\b|\bnumbered (?:list|steps)\b|\bsteps?\b|\bsequential|\bin order\b",
            r"^[ \t]*(?:\*\*)?(?:step )?\d+[.):]|\bstep 1\b|\bfirst\b.*\bthen\b",
        ),
        (r"\b(?:specific|explicit|exact) (?:\w+ )?(?:numbers?|figures?|amounts?)\b|\bnumeric|\bquantit|\bnumbers\b", r"\d"),
        (r"\btables?\b|\bcolumns?\b", r"^[ \t]*\|.+\|"),
        (r"\bformula|\bequation|\balgebra|\bderivation|\bsymbolic", r"[=≈∫√∂^]|\\\w+"),
        (r"\bexamples?\b|\bsample\b|\bconcrete\b", r"\b(?:for example|e\.g\.|example|such as|for instance|say,|sample)"),
        (r"\bitemized\b|\bbreakdown\b|\bcategor", r"(?:^[ \t]*[-*•\d].*\n?){3,}"),
        (r"\bcompar|\bversus\b|\bpros and cons\b|\btrade-?offs?\b", r"\b(?:than|versus|vs|compared|while|pros|cons|trade)"),
    )
)
"""What a nugget can ask of an answer's form, and what shows it."""
