"""A dialogue as the conversation that a memory of this project reads: what was said, and nothing else.

Who speaks is told by the name at the beginning of a line, as the session texts have it (section 3.2 of the paper). The
mentor takes the place of the user, the mentee that of the assistant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

from beam_memorycode.dialogues import Dialogue, Setting
from beamlib.data.conversations import Batch, Conversation, Message, Role, Seed, Turn
from beamlib.errors import UserError
from beamlib.files import sha256, to_json

SUITE = "MemoryCode"


def conversation_of(dialogue: Dialogue) -> Conversation:
    """`dialogue` as a conversation: a batch per session, a turn per pair.

    Every character of the texts is kept, in order, but for the blank around what a speaker says; names stay, since two
    people speak who are no user and assistant. The rule for texts that do not alternate: what one speaker says several
    times in a row is one message; text under no known name belongs to whoever spoke last, and to the mentor, who leads,
    where nobody has; where a session begins with the mentee or ends with the mentor, the other half of the pair is an
    empty message. A session with nothing in it is a batch without turns. `UserError` for a dialogue without texts.
    """
    ids = count()
    batches = []
    for place, session in enumerate(dialogue.sessions):
        if session.text is None:
            raise UserError(f"{dialogue.name}: session {place} has no text, so no memory can read it; give the texts.")
        said = list(_messages(session.text, dialogue.context))
        if said and said[0][0] == "assistant":
            said.insert(0, ("user", ""))
        if said and said[-1][0] == "user":
            said.append(("assistant", ""))
        messages = [Message(next(ids), role, text, "main_question" if role == "user" else None) for role, text in said]
        turns = tuple(Turn(pair) for pair in zip(messages[::2], messages[1::2], strict=True))
        batches.append(Batch(number=place + 1, turns=turns))
    content = [[message.content for turn in batch.turns for message in turn.messages] for batch in batches]
    return Conversation(
        id=dialogue.name,
        size=SUITE,
        seed=Seed(category="coding", title=SUITE),
        batches=tuple(batches),
        sha256=sha256(to_json(content)),
    )


def _messages(text: str, context: Setting) -> Iterator[tuple[Role, str]]:
    """Role and words of each message of a session, roles alternating."""
    names: dict[str, Role] = {context.mentor: "user", context.mentee: "assistant"}
    speaker = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    before, *pieces = re.split(rf"^(?=[^\S\n]*(?:{speaker})[^\S\n]*:)", text, flags=re.MULTILINE)
    held: list[str] = [before.strip()] if before.strip() else []
    role: Role = "user"
    for piece in pieces:
        said = piece.strip()
        speaks = names[said.partition(":")[0].rstrip()]
        if held and speaks != role:
            yield role, "\n\n".join(held)
            held = []
        role = speaks
        held.append(said)
    if held:
        yield role, "\n\n".join(held)
