"""What an error means: retry, one call without an answer, or the end of the run. How long to wait; no key is shown."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote

import pytest

from beamlib.errors import UserError
from beamlib.llm.faults import (
    Asker,
    RetryableError,
    advice,
    error_text,
    excerpt,
    retry_after,
    stated_wait,
    status_error,
)
from beamlib.llm.keys import without_key
from beamlib.llm.model import ModelError, Outcome

KEY = "sk-invented-0123456789"


def classify(status: int, body: object = "", headers: dict[str, str] | None = None, *, answered: bool = False) -> Any:
    text = body if isinstance(body, str) else json.dumps(body)
    asker = Asker("The judge model m at http://h/v1", "MY_KEY", KEY, answered)
    return status_error(asker, status, headers or {}, text)


def error(message: str, code: str | int | None = None) -> dict[str, object]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("status", [408, 409, 423, 424, 425, 429, 498, 499, 500, 502, 503, 529])
def test_these_are_retried(status: int, answered: bool) -> None:
    failure = classify(status, error("busy"), answered=answered)
    assert isinstance(failure, RetryableError)
    assert failure.silent == (status >= 500) and failure.throttled == (status < 500)


ENDS, ONE_CALL, PASSES = UserError, ModelError, RetryableError


@pytest.mark.parametrize(
    ("status", "first", "later"),
    [
        *((status, ONE_CALL, ONE_CALL) for status in (301, 400, 403, 413, 422, 451)),
        *((status, ENDS, ENDS) for status in (401, 402, 405, 410)),
        (404, ENDS, PASSES),
        *((status, ONE_CALL, PASSES) for status in (406, 411, 418, 431, 460)),
    ],
)
@pytest.mark.parametrize("words", ["no", "Your credit balance is too low", "Invalid API key", "busy, retry in 3s"])
def test_the_status_decides_what_an_error_means_and_its_words_do_not(
    status: int, first: type, later: type, words: str
) -> None:
    assert type(classify(status, error(words))) is first
    assert type(classify(status, error(words), answered=True)) is later


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, error("Incorrect API key provided: " + KEY), "MY_KEY"),
        (401, error("Incorrect API key provided: sk-i*******6789"), "MY_KEY"),
        (402, error("pay"), "credit"),
        (429, error("Rate limit reached on tokens per day (TPD). Please try again in 7h12m0s."), "7 hours"),
        (429, {"error": {"message": "slow", "details": [{"retryDelay": "90000s"}]}}, "25 hours"),
        (503, error("Quota exhausted; wait 3 days and 2 hours."), "3 days"),
        (404, error("The model does not exist", "model_not_found"), "base_url"),
        (405, "Method not allowed", "base_url"),
    ],
)
def test_these_stop_the_run_with_one_sentence(status: int, body: object, words: str) -> None:
    failure = classify(status, body)
    assert isinstance(failure, UserError)
    assert words in str(failure) and "judge" in str(failure) and "same command" in str(failure)
    assert KEY not in str(failure) and "6789" not in str(failure) and "\n" not in str(failure)


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        ("Your prepaid minutes ran out; please top up", "buy credit"),
        ("spending cap of this workspace reached", "buy credit"),
        ("requests from your territory are not served", "another network"),
        ("error code: 1020", "another network"),
        ("your tier has no permission for this model", "no access to this model"),
        ("authentication failed", "MY_KEY"),
        ("the moon", "MY_KEY"),
    ],
)
def test_a_servers_words_choose_the_advice_and_are_shown(words: str, cure: str) -> None:
    failure = classify(403, error(words))
    assert words in str(failure)
    assert cure in advice(words, 403, Asker("The judge", "MY_KEY", KEY))


CONTEXT = {
    "OpenAI": (400, error("too many", "context_length_exceeded")),
    "vLLM": (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens."}),
    "Gemini": (400, [{"error": {"message": "The input exceeds the maximum number of tokens allowed"}}]),
    "Anthropic": (413, error("The prompt is too long: 1 > 0")),
    "FastAPI": (422, {"detail": [{"msg": "context window"}]}),
    "llama.cpp": (400, error("the request exceeds the available context size (4096 tokens), try increasing it")),
    "llama.cpp with 500": (500, error("context size exceeded", 500)),
    "TGI": (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096."}),
    "DeepInfra": (400, error("The prompt is longer than the maximum number of input tokens 32767")),
    "Cohere": (400, {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081"}),
    "Groq": (413, error("Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 31000")),
    "OpenAI's TPM": (429, error("Request too large for m on tokens per min (TPM): Limit 30000, Requested 128000.")),
}


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        *((*answer, Outcome.CONTEXT_LENGTH) for answer in CONTEXT.values()),
        (400, error("no", "content_filter"), Outcome.FILTERED),
        (400, error("flagged as potentially violating our usage policy", "invalid_prompt"), Outcome.FILTERED),
        (403, error("Your input needs moderation"), Outcome.FILTERED),
        (400, error("messages must not be odd"), Outcome.REFUSED),
        (422, "not even JSON", Outcome.REFUSED),
    ],
)
def test_these_end_one_call(status: int, body: object, outcome: Outcome) -> None:
    failure = classify(status, body)
    assert isinstance(failure, ModelError) and failure.outcome is outcome and not failure.transient


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "1445412480"}, 0),
        ({"retry-after": "1445412480000"}, 0),
        *(({"retry-after": odd}, None) for odd in ("-4", "soon", "1e999", "nan")),
        ({"retry-after": "Mon, 01 Jan 2024 00:00:00 -" + "9" * 400}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_wait_is_read_from_a_date_and_from_words_and_hours_stop_the_run() -> None:
    date = retry_after({"retry-after": format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)})
    assert date is not None and 90 < date <= 100
    words = {"in 7h12m0s.": 25_920, "in 1.5s. Visit": 1.5, "in 200ms": 0.2, "after 6 seconds.": 6, "soon": None}
    words |= {"in 1 hour and 30 minutes": 5_400, "in 2 days": 172_800, "in 3 models": None, "in 2 months": 5_184_000}
    assert {text: stated_wait(f"Please try again {text}") for text in words} == words
    later = datetime.now(UTC).timestamp() + 100
    for moment in (later, later * 1_000, later * 1_000_000):
        wait = retry_after({"retry-after": f"{moment:.0f}"})
        assert wait is not None and 95 < wait < 101
    assert stated_wait('{"error": {"metadata": {"retry_after_ms": 2500}}}') == 2.5
    assert [stated_wait(f'{{"retry_after": "{text}"}}') for text in ("20", "20261201", "2026-W49")] == [
        20,
        20_261_201,
        None,
    ]
    assert isinstance(classify(429, "", {"retry-after": "7200"}), UserError)
    assert classify(429, "", {"retry-after": "7"}).wait == classify(429, error("Please try again in 7s.")).wait == 7


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=9)), None])
def test_a_wait_is_read_from_a_date_of_iso_8601(zone: timezone | None) -> None:
    date = (datetime.now(UTC) + timedelta(hours=5)).astimezone(zone or UTC).replace(tzinfo=zone).isoformat()
    texts = [date, date.replace("+00:00", "Z")]
    waits = [retry_after({"retry-after": text}) for text in texts]
    waits += [stated_wait(f'{{"error": {{"retry_after": "{text}"}}}}') for text in texts]
    assert all(wait is not None and 17_990 < wait <= 18_000 for wait in waits)
    ended = classify(429, "", {"retry-after": date})
    assert isinstance(ended, UserError) and "it asks to wait 5 hours" in str(ended)


def test_a_servers_text_is_short_one_line_and_without_the_key() -> None:
    text = excerpt(f"no:\n\n Bearer {KEY}\r\n" + "x" * 500, KEY)
    assert text.startswith("no: Bearer [key] xxx") and len(text) == 200 and "\n" not in text
    key = "sk-in/vented+0123456789"
    assert without_key(quote(key, safe=""), key) == without_key(f'{{"a": "{key}"}}', key)[7:-2] == "[key]"
    assert without_key("none of these", "none") == "none of these", "a placeholder is no secret"


@pytest.mark.parametrize("body", ["", "[" * 100_000, "[]", "3", "null", '{"error": null}', '{"error": {"message": 3}}'])
def test_odd_error_bodies_are_read_without_failing(body: str) -> None:
    assert isinstance(error_text(body)[0], str)
    assert isinstance(classify(400, body), ModelError)


@pytest.mark.parametrize(("value", "seconds"), [("2s", 2.0), ("1m30s", 90.0), ("500ms", 0.5), ("3 minutes", 180.0)])
def test_a_wait_with_a_unit_is_read(value: str, seconds: float) -> None:
    assert retry_after({"retry-after": value}) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-reset-requests": "1s"}, 1),
        ({"X-RateLimit-Reset-Tokens": "6m0s"}, 360),
        ({"x-ratelimit-reset-requests": "20ms"}, 0.02),
        ({"ratelimit-reset": "17"}, 17),
        ({"x-ratelimit-reset-requests": "8ms", "x-ratelimit-reset-tokens": "1m30.5s"}, 90.5),
        # one of two limits is used up
        (
            {
                "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "12s",
                "x-ratelimit-remaining-tokens": "4000", "x-ratelimit-reset-tokens": "6m0s",
            },
            12,
        ),
        # too little remains of one that is reset by the minute, or by the day
        (
            {
                "x-ratelimit-remaining-tokens-minute": "90", "x-ratelimit-reset-tokens-minute": "31.4",
                "x-ratelimit-remaining-requests-day": "14000", "x-ratelimit-reset-requests-day": "33011.4",
            },
            31.4,
        ),
        ({"x-ratelimit-remaining-requests-day": "14000", "x-ratelimit-reset-requests-day": "33011.4"}, None),
        ({"x-ratelimit-remaining-requests": "3", "x-ratelimit-limit-requests": "60"}, None),
        ({"x-ratelimit-reset-requests": "soon"}, None),
    ],
)  # fmt: skip
def test_a_busy_server_that_says_when_its_limits_are_reset_is_asked_then(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert classify(429, error("slow"), headers).wait == seconds
    assert classify(503, error("slow"), headers).wait is None
    assert classify(429, error("slow"), headers | {"retry-after": "5"}).wait == 5
    assert classify(429, error("Please try again in 7s."), headers).wait == 7


def test_a_limit_of_a_day_that_is_used_up_ends_the_run_with_the_time() -> None:
    moment = datetime.now(UTC) + timedelta(hours=5)
    texts = (f"{moment.timestamp():.0f}", f"{moment.timestamp() * 1000:.0f}", moment.isoformat(), "5h0m0s", "18000")
    for text in texts:
        ended = classify(
            429, "", {"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": text}
        )
        assert isinstance(ended, UserError) and "it asks to wait 5 hours" in str(ended)


def test_a_prompt_that_an_error_repeats_asks_for_no_wait() -> None:
    said = "Internal error. " + "Received messages: " * 60 + "The course is available in 3 weeks."
    assert stated_wait(json.dumps({"error": {"message": said}})) is None
    assert stated_wait(json.dumps({"error": {"message": "Available in 3 weeks. " + said}})) == 3 * 604_800
