"""Faults: what a status means, how long to wait, what a message may hold, when the breaker opens and ends a term."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import quote

import pytest

from beamlib.errors import UserError
from beamlib.llm.faults import Breaker, TryAgain, brief, error_text, retry_after, status_error, without_key
from beamlib.llm.model import ModelError, Outcome

KEY = "sk-invented-0123456789"


def judged(status: int, body: object = "", headers: dict[str, str] | None = None) -> TryAgain | ModelError | UserError:
    text = body if isinstance(body, str) else json.dumps(body)
    return status_error("The judge model m at http://h/v1", "MY_KEY", KEY, status, headers or {}, text)


def said(message: str, code: str | None = None) -> dict[str, object]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_these_are_tried_again(status: int) -> None:
    found = judged(status, said("busy"))
    assert isinstance(found, TryAgain)
    assert found.silent == (status >= 500) and found.throttled == (status == 429)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, said("Incorrect API key provided: " + KEY), "MY_KEY"),
        (403, said("no"), "MY_KEY"),
        (400, [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}], "MY_KEY"),
        (402, said("pay"), "credit"),
        (429, said("You exceeded your quota", "insufficient_quota"), "credit"),
        (404, said("The model does not exist", "model_not_found"), "base_url"),
        (405, "Method not allowed", "base_url"),
        (400, said("Use max_completion_tokens instead.", "unsupported_parameter"), "limit_field"),
        (400, {"error": {"message": "stop: at most 4", "code": 400, "param": "body.stop"}}, "limit_field"),
    ],
)
def test_these_stop_the_run_with_one_sentence(status: int, body: object, words: str) -> None:
    found = judged(status, body)
    assert isinstance(found, UserError)
    assert words in str(found) and "judge" in str(found) and "same command" in str(found)
    assert KEY not in str(found) and "\n" not in str(found)


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (400, said("too many", "context_length_exceeded"), Outcome.CONTEXT_LENGTH),
        (
            400,
            {"object": "error", "message": "This model's maximum context length is 4096 tokens."},
            Outcome.CONTEXT_LENGTH,
        ),
        (
            400,
            [{"error": {"message": "The input exceeds the maximum number of tokens allowed"}}],
            Outcome.CONTEXT_LENGTH,
        ),
        (413, said("The prompt is too long: 1 > 0"), Outcome.CONTEXT_LENGTH),
        (422, {"detail": [{"msg": "context window"}]}, Outcome.CONTEXT_LENGTH),
        (400, said("no", "content_filter"), Outcome.FILTERED),
        (400, said("flagged as potentially violating our usage policy", "invalid_prompt"), Outcome.FILTERED),
        (403, said("Your input needs moderation"), Outcome.FILTERED),
        (400, said("messages must not be odd"), Outcome.REFUSED),
        (422, "not even JSON", Outcome.REFUSED),
    ],
)
def test_these_end_one_call(status: int, body: object, outcome: Outcome) -> None:
    found = judged(status, body)
    assert isinstance(found, ModelError) and found.outcome is outcome and not found.transient


def test_an_endpoint_that_asks_for_hours_stops_the_run() -> None:
    assert isinstance(judged(429, "", {"retry-after": "7200"}), UserError)
    short = judged(429, "", {"retry-after": "7"})
    assert isinstance(short, TryAgain) and short.wait == 7


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "-4"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Mon, 01 Jan 2024 00:00:00 +99999999999999"}, None),
        ({"retry-after": "Mon, 01 Jan 2024 00:00:00 -" + "9" * 400}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_as_a_date() -> None:
    found = retry_after({"retry-after": format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)})
    assert found is not None and 90 < found <= 100


def test_a_servers_words_are_short_one_line_and_without_the_key() -> None:
    text = brief(f"no:\n\n Bearer {KEY}\r\n" + "x" * 500, KEY)
    assert text.startswith("no: Bearer [key] xxx") and len(text) == 200 and "\n" not in text
    for echo in (
        quote(key := "sk-in/vented+0123456789", safe=""),
        *(b64encode(b"x" * n + key.encode() + b"y").decode() for n in range(3)),
    ):
        assert len(without_key(echo, key)) < 16, echo
    assert without_key("none of these", "none") == "none of these", "a placeholder is no secret"


@pytest.mark.parametrize("body", ["", "[" * 100_000, "[]", "3", "null", '{"error": null}', '{"error": {"message": 3}}'])
def test_odd_error_bodies_are_read_without_failing(body: str) -> None:
    assert isinstance(error_text(body)[0], str)
    assert isinstance(judged(400, body), ModelError)


def silent(breaker: Breaker, *, patience: float = 60.0, reached: bool = True, times: int = 1) -> None:
    for _ in range(times):
        breaker.silent(breaker.term, "The reader model m", "status 503", patience, reached=reached)


def test_the_breaker_opens_after_eight_silent_tries_and_closes_with_any_answer() -> None:
    async def scenario() -> None:
        breaker = Breaker()
        silent(breaker, times=7)
        breaker.answered()
        silent(breaker, times=7)
        assert not breaker.open
        silent(breaker)
        assert breaker.open
        breaker.answered()
        assert not breaker.open
        async with breaker.passage(breaker.term) as probing:
            assert not probing

    asyncio.run(scenario())


def test_nothing_at_the_address_opens_it_at_once_but_not_once_it_has_answered() -> None:
    async def scenario() -> None:
        breaker = Breaker()
        silent(breaker, reached=False)
        assert breaker.open
        breaker.answered()
        silent(breaker, reached=False)
        assert not breaker.open

    asyncio.run(scenario())


def test_open_lets_one_probe_through_at_a_time() -> None:
    async def scenario() -> None:
        breaker = Breaker()
        silent(breaker, reached=False, patience=0.4)
        inside, most, probes = 0, 0, 0

        async def call() -> None:
            nonlocal inside, most, probes
            async with breaker.passage(0) as probing:
                inside, probes = inside + 1, probes + probing
                most = max(most, inside)
                await asyncio.sleep(0.01)
                inside -= 1
                if probes == 3:
                    breaker.answered()

        await asyncio.gather(*(call() for _ in range(3)))
        assert (most, probes) == (1, 3)

    asyncio.run(scenario())


def test_patience_ends_the_term_for_all_who_entered_in_it_and_later_calls_start_afresh() -> None:
    async def scenario() -> None:
        breaker = Breaker()
        silent(breaker, reached=False, patience=0.02)
        waiting = asyncio.create_task(breaker.passage(0).__aenter__())
        await asyncio.sleep(0.03)
        silent(breaker, reached=False, patience=0.02)
        assert breaker.term == 1 and not breaker.open
        with pytest.raises(UserError, match=r"reader model m .*nobody .*base_url.*same command"):
            await waiting
        with pytest.raises(UserError):
            breaker.check(0)
        breaker.check(1)
        silent_before = breaker.open
        breaker.silent(0, "late", "late", 0.0, reached=False)  # a try of the ended term comes back
        assert breaker.open == silent_before and breaker.term == 1

    asyncio.run(scenario())
