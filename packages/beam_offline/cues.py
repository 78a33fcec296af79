"""Wordings by which the stand-in knows what a statement does. All are about what the user says in the first person."""

from __future__ import annotations

import re

STANDING = re.compile(
    r"^\W*(?:please )?(?:always|never|from now on|whenever I ask|make sure to always)\b"
    r"|\bwhen(?:ever)? I ask (?:about|for|you)\b",
    re.IGNORECASE,
)
"""An instruction for later answers."""

OCCASION = re.compile(r"\bwhen(?:ever)? I(?: ask)? (?:about|for|you)?\s*(.+)$", re.IGNORECASE)
"""The part of an instruction that says when it holds."""

PREFERENCE = re.compile(
    r"\bI(?:'d| would)? (?:prefer|rather|like|love|favou?r|enjoy|hate|dislike)\b|\bmy (?:preference|favou?rite)\b"
    r"|\bI(?:'ve| have)? (?:decided|chosen|chose)\b|\binstead of\b|\brather than\b",
    re.IGNORECASE,
)
"""A liking, or a choice of one thing over another."""

NEVER = re.compile(
    r"\b(?:I|we)(?:'ve| have| had|'d)?\s+(?:\w+ )?never\b"
    r"|\b(?:I|we) (?:haven't|have not|hadn't|had not|didn't|did not)\b(?! only)",
    re.IGNORECASE,
)
"""A statement that the user never, or not yet, did something."""

NEWS = re.compile(
    r"\b(?:now|recently|latest|updated?|new|increased|reduced|decreased|improved|grown|grew|reached|raised|extended|"
    r"changed|moved|rescheduled|postponed|switched|added|currently|increase|growth|expanded|bumped|went up|total of)\b",
    re.IGNORECASE,
)
"""A statement that something is no longer what it was."""

ASKING = re.compile(
    r"^\W*(?:and |but |so |maybe )*"
    r"(?:can|could|would|will|do|does|did|is|are|should|what|how|why|which|where|when|who|any)\b|\b(?:can|could) you\b",
    re.IGNORECASE,
)
"""A request or a question rather than a statement."""

FIRST_PERSON = re.compile(r"\b(?:I|I'm|I've|I'd|I'll|my|me|we|our|we're|we've)\b", re.IGNORECASE)
"""The user speaks of themselves."""

DIRECTED = re.compile(
    r"\b(?:from now on|(?:going|moving) forward|from here on)\b"
    r"|\bI(?:'d like| would like| want| need| expect)(?: for)? you to\b"
    r"|^\W*(?:\w+: )?(?:(?:first|second|also|additionally|now|so)\w{0,2},? )?(?:please )?"
    r"(?:always|never|make sure|ensure|don't forget|remember to)\b",
    re.IGNORECASE,
)
"""What somebody is told to do from then on."""
