"""What an error means: retry, one call without an answer, or the end of the run. How long to wait; no key is shown."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote

import pytest

from beamlib.errors import UserError
from beamlib.llm.faults import Breaker, RetryableError, error_text, excerpt, retry_after, stated_wait, status_error
from beamlib.llm.keys import without_key
from beamlib.llm.model import ModelError, Outcome

KEY = "sk-invented-0123456789"


def classify(status: int, body: object = "", headers: dict[str, str] | None = None) -> Any:
    text = body if isinstance(body, str) else json.dumps(body)
    return status_error("The judge model m at http://h/v1", "MY_KEY", KEY, status, headers or {}, text)


def error(message: str, code: str | int | None = None) -> dict[str, object]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_these_are_retried(status: int) -> None:
    failure = classify(status, error("busy"))
    assert isinstance(failure, RetryableError)
    assert failure.silent == (status >= 500) and failure.throttled == (status == 429)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, error("Incorrect API key provided: " + KEY), "MY_KEY"),
        (403, error("no"), "MY_KEY"),
        (400, [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}], "MY_KEY"),
        (402, error("pay"), "credit"),
        (429, error("You exceeded your quota", "insufficient_quota"), "credit"),
        (429, error("Rate limit reached on tokens per day (TPD). Please try again in 7h12m0s."), "432 minutes"),
        (429, error("Rate limit exceeded: free-models-per-day", 429), "daily limit"),
        (404, error("The model does not exist", "model_not_found"), "base_url"),
        (405, "Method not allowed", "base_url"),
        (400, error("Use max_completion_tokens instead.", "unsupported_parameter"), "limit_field"),
        (400, {"error": {"message": "stop: at most 4", "code": 400, "param": "body.stop"}}, "limit_field"),
    ],
)
def test_these_stop_the_run_with_one_sentence(status: int, body: object, words: str) -> None:
    failure = classify(status, body)
    assert isinstance(failure, UserError)
    assert words in str(failure) and "judge" in str(failure) and "same command" in str(failure)
    assert KEY not in str(failure) and "\n" not in str(failure)


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
    assert {text: stated_wait(f"Please try again {text}") for text in words} == words
    assert isinstance(classify(429, "", {"retry-after": "7200"}), UserError)
    assert classify(429, "", {"retry-after": "7"}).wait == classify(429, error("Please try again in 7s.")).wait == 7


def test_a_servers_text_is_short_one_line_and_without_the_key() -> None:
    text = excerpt(f"no:\n\n Bearer {KEY}\r\n" + "x" * 500, KEY)
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
    assert isinstance(classify(400, body), ModelError)


def test_the_breaker_opens_after_eight_silent_tries_or_where_nobody_listens_and_closes_with_any_answer() -> None:
    breaker = Breaker()

    def silence(times: int, *, reached: bool = True, patience: float = 60.0) -> None:
        for _ in range(times):
            breaker.record_silence(breaker.term, "The reader model m", "status 503", patience, reached=reached)

    silence(1, reached=False)
    assert breaker.open
    breaker.record_answer()
    silence(7, reached=False)
    assert not breaker.open, "it has answered before"
    silence(1)
    assert breaker.open
    silence(1, patience=0.0)
    assert breaker.term == 1 and not breaker.open
    with pytest.raises(UserError, match=r"reader model m .*not answered .*base_url.*same command"):
        breaker.check(0)
    breaker.check(1)
    breaker.record_silence(0, "late", "late", 0.0, reached=False)  # a try of the ended term comes back
    assert breaker.term == 1 and not breaker.open
