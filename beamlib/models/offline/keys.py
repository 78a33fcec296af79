"""Keys for LIGHT's episodic index by rules: the offline stand-in, not a language model."""

from __future__ import annotations

import re
from collections.abc import Mapping

from beamlib.text import split_sentences

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


def episodic_keys(variables: Mapping[str, str]) -> str:
    """Reply to the prompt `episodic_keys`: a `said:` line per sentence of the user, then a `summary:` line.

    Reads `variables["pair"]`: a "[messages a-b]" line, "USER: ...", "ASSISTANT: ...".
    """
    user, _, _ = variables["pair"].partition("USER: ")[2].partition("\nASSISTANT: ")
    sentences = split_sentences(_CODE.sub("\n", user)) or [user.strip()[:500]]
    lines = [f"said: {' '.join(sentence.split())}" for sentence in sentences]
    return "\n".join([*lines, f"summary: {' '.join(' '.join(sentences)[:200].split())}"])
