"""ReadAgent: where pages end, what is asked, what the context shows, and what is done about replies of no use."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from beam_memories.by_name.readagent import ReadAgent, ReadAgentSettings
from beam_offline import OfflineModel
from beamlib.data.conversations import Batch, Conversation, Message, Probe, Seed, Turn
from beamlib.errors import UserError
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt
from beamlib.memory.budget import RESERVE_TOKENS
from beamlib.memory.protocol import RetrievedContext, partly_shown
from beamlib.params import usual_parameters

Reply = Callable[[Prompt], str]


class Scripted:
    """Ends pages at the first label, shortens a page to its first ids, and opens the pages it is told."""

    name = "scripted"

    def __init__(self, page: Reply = lambda p: "<1>", look: Reply = lambda p: "[]", gist: Reply | None = None) -> None:
        shorten: Reply = gist or (lambda prompt: f"Short of {prompt.about}.")
        self.replies = {"readagent_page": page, "readagent_lookup": look, "readagent_gist": shorten}
        self.asked: list[Prompt] = []

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt)
        return Completion(self.replies[prompt.id](prompt))

    def of(self, prompt_id: str) -> list[Prompt]:
        return [prompt for prompt in self.asked if prompt.id == f"readagent_{prompt_id}"]


def conversation(*sessions: list[str]) -> Conversation:
    """One message per text, user and assistant in turn."""
    batches, number = [], 0
    for place, texts in enumerate(sessions, start=1):
        messages = []
        for text in texts:
            messages.append(Message(number, "assistant" if number % 2 else "user", text))
            number += 1
        batches.append(Batch(place, (Turn(tuple(messages)),)))
    return Conversation("100K-1", "100K", Seed("Cooking", "Bread"), tuple(batches))


def words(name: str, count: int) -> str:
    return " ".join(f"{name}{place}" for place in range(count))


SMALL = ReadAgentSettings(readagent_least_words=20, readagent_most_words=60, readagent_lookups=2)


def read(model: Scripted, told: Conversation, window: int = 32_768) -> ReadAgent:
    agent = ReadAgent(model, SMALL, window)
    agent.ingest(told)
    return agent


def test_a_page_ends_between_least_and_most_words_where_the_model_says() -> None:
    told = conversation([words("a", 10), words("b", 15), words("c", 10), words("d", 10), words("e", 30), words("f", 9)])
    last = Scripted(page=lambda prompt: str(prompt.messages[0]["content"].count("\n<") and 3))
    agent = read(last, told)
    (first,) = last.of("page")
    shown = first.variables["passage"]
    assert "a9" in shown and "<1>\n\n" in shown and shown.endswith("d9\n<3>") and "e0" not in shown
    assert shown.index("b14\n<1>") < shown.index("c9\n<2>")
    pages = [prompt.variables["page"] for prompt in last.of("gist")]
    assert [("d9" in page, "e0" in page) for page in pages] == [(True, False), (False, True)]
    assert agent.recall("?").message_ids == tuple(range(6))


def test_a_page_never_crosses_a_session_and_what_fits_costs_no_call() -> None:
    model = Scripted()
    read(model, conversation([words("a", 30), words("b", 20)], [words("c", 5), words("d", 5)]))
    assert model.of("page") == []
    assert [prompt.about for prompt in model.of("gist")] == ["messages 0-1", "messages 2-3"]


def test_a_paragraph_longer_than_a_page_is_a_page_of_its_own() -> None:
    model = Scripted()
    read(model, conversation([words("a", 5), words("b", 500), f"{words('c', 5)}\n\n{words('d', 70)}", "yes"]))
    pages = [prompt.variables["page"] for prompt in model.of("gist")]
    assert ["b499" in page for page in pages].count(True) == 1
    assert "\n\n".join(pages).count("USER:") == 2 and "d69" in pages[-2] + pages[-1]


@pytest.mark.parametrize("reply", ["none", "7", "<1> or <2>", ""])
def test_a_reply_without_a_label_is_asked_for_again_then_the_last_counts(reply: str) -> None:
    told = conversation([words("a", 25), words("b", 20), words("c", 40), words("d", 3)])
    model = Scripted(page=lambda prompt: reply)
    read(model, told)
    assert [prompt.attempt for prompt in model.of("page")] == [0, 1]
    assert "b19" in model.of("gist")[0].variables["page"]


def test_opened_pages_stand_in_full_among_the_gists_of_the_others() -> None:
    texts = [words(name, 50) for name in "abcdef"]
    model = Scripted(look=lambda prompt: "Pages [4, 1, 0, 99]" if "?" in prompt.variables["question"] else "[]")
    told = conversation(texts)
    agent = read(model, told)
    found = agent.recall("What?")
    assert [texts[place] in found.context for place in range(6)] == [False, True, False, False, True, False]
    assert found.context.index("<Page 0>") < found.context.index("b0 ") < found.context.index("<Page 2>")
    assert found.parts == {"gists": (0, 2, 3, 5), "pages": (1, 4)} and found.cuts.pairs_dropped == 0
    assert set(partly_shown(found, dict(enumerate(texts)))) == {0, 2, 3, 5}
    (asked,) = model.of("lookup")
    assert asked.variables["count"] == "2" and asked.variables["question"] == "What?"
    assert asked.variables["gists"].count("Short of messages") == 6
    assert "a0" not in asked.variables["gists"]


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    model = Scripted(look=lambda prompt: "[8, 9]", gist=lambda prompt: words("gist", 20))
    agent = read(model, conversation([words(f"m{place}x", 55) for place in range(10)]), RESERVE_TOKENS + 180)
    found = agent.recall("What?")
    assert found.cuts.chunks_dropped > 0 and found.cuts.pairs_dropped == 2 and "m9x" not in found.context
    assert min(found.message_ids) == found.cuts.chunks_dropped
    wide = read(model, conversation([words(f"m{place}x", 55) for place in range(10)]), RESERVE_TOKENS + 420)
    shown = wide.recall("What?")
    assert "m8x54" in shown.context and len(shown.context.split()) < 420


@pytest.mark.parametrize("reply", ["no list", '{"pages": "all"}', "[1, 2] or [3]"])
def test_a_look_up_without_a_list_fails_its_question_alone(reply: str) -> None:
    model = Scripted(look=lambda prompt: reply if prompt.variables["question"] == "bad" else "[0]")
    agent = read(model, conversation([words("a", 30), words("b", 30)]))
    bad, good = agent.recall_probes([Probe("q0", "100K-1", "bad"), Probe("q1", "100K-1", "good")])
    assert isinstance(bad, ModelError) and bad.outcome is Outcome.UNREADABLE
    assert isinstance(good, RetrievedContext) and "a29" in good.context


def test_one_page_that_is_refused_has_no_gist_and_is_counted() -> None:
    def gist(prompt: Prompt) -> str:
        if prompt.about == "messages 2-2":
            raise ModelError("filtered", Outcome.FILTERED)
        return "Short."

    agent = read(Scripted(gist=gist), conversation([words(f"m{place}", 55) for place in range(12)]))
    assert agent.recall("?").gaps == 1 and "<Page 2>\n[messages 2-2] \n" in agent.recall("?").context


def test_pages_that_cannot_end_are_refused() -> None:
    with pytest.raises(UserError, match="'readagent_least_words' is 700: give less than 600 words"):
        usual_parameters("100K", readagent_least_words=700)


def test_the_stand_in_answers_all_three_prompts() -> None:
    told = conversation(*([words(f"{name}{place}", 45) for place in range(6)] for name in ("honey", "flour")))
    agent = ReadAgent(OfflineModel(), SMALL)
    agent.ingest(told)
    found = agent.recall("What of flour2x3?")
    assert found.parts["gists"] and found.gaps == 0
    assert words("flour2", 45) in agent.recall(f"What of {words('flour2', 3)}?").context
