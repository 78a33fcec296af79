"""Reply to prompts by their variables alone.

A repeated call with a complaint gets the first call's reply, so that a run with faults can equal one without.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import yaml

from scripted_server import ScriptedServer, exam_verdict


def steady_reply(body: dict[str, Any]) -> str:
    """Reply to any prompt of the evaluation, recognised by the tags around its variables.

    A request without tags asks a question at the end of a dialogue.
    """
    text = str(body["messages"][-1]["content"])
    tags = dict(re.findall(r"<(\w+)>\n(.*?)\n</\1>", text, re.DOTALL))
    if not tags:
        question = text.partition("\n\n")[0]  # a complaint follows after a blank line
        dialogue = "\n".join(str(message["content"]) for message in body["messages"][:-1])
        return f"About {' '.join(question.split()[:8])}: {_number(dialogue + question)}."
    if "criterion" in tags and (verdict := exam_verdict(text)):
        return verdict
    if "criterion" in tags:
        score = (0, 0.5, 1)[_number(tags["criterion"] + tags["answer"]) % 3]
        return json.dumps({"score": score, "reason": "scripted"})
    if "events" in tags:
        return json.dumps({str(n): [n] for n, _ in enumerate(tags["events"].splitlines(), start=1)})
    if "first" in tags:
        return "YES" if _number(tags["first"] + tags["second"]) % 4 == 0 else "NO"
    if "piece" in tags:
        return "yes" if _number(tags["piece"] + tags["question"]) % 2 else "no"
    if "notes" in tags:
        return "\n".join(line for line in tags["notes"].splitlines()[::3])
    if "question" in tags:
        return f"About {' '.join(tags['question'].split()[:8])}: {_number(text.partition('</question>')[0])}."
    sentence = re.findall(r"USER: (.+)", tags.get("text") or tags["exchange"])[-1]
    words = " ".join(sentence.split()[:14])
    return f"topic: {words}\nsummary: the user spoke of {words}" if "text" in tags else f"- {words}.\n- More of it."


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


def one_endpoint(server: ScriptedServer, path: Path, **embedding: Any) -> Path:
    """Write a models file with the server in every role; in `embedding` too if fields of it are given."""
    endpoint = {"model": "scripted", "base_url": server.base_url, "context_window": 131_072}
    roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
    models: dict[str, Any] = {"readers": {"one": endpoint}, **roles}
    if embedding:
        models["embedding"] = {"model": "embedder", "base_url": server.base_url, **embedding}
    path.write_text(yaml.safe_dump(models))
    return path
