"""A memory that calls a model, returns a nonce for each question, logs JSON, and now and then breaks the protocol.

What it does to a question depends on the question's nonce and happens once: the file that marks it lies in
NEMESIS_MARKS. Without that variable it keeps to the protocol.
"""

import hashlib
import json
import os
import sys
import urllib.request
from pathlib import Path

MARKS = os.environ.get("NEMESIS_MARKS")


def say(value):
    print(json.dumps(value), flush=True)


def once(name):
    """Whether something may happen that has not happened before."""
    try:
        os.close(os.open(Path(MARKS, name), os.O_CREAT | os.O_EXCL)) if MARKS else None
    except OSError:
        return False
    return bool(MARKS)


def recall(api, question, nonce):
    """Ask the model, and return the reply to a request without its id."""
    body = json.dumps({"model": api["model"], "messages": [{"role": "user", "content": "Recall: " + question}]})
    request = urllib.request.Request(api["base_url"] + "/chat/completions", body.encode())
    request.add_header("Authorization", "Bearer " + api["api_key"])
    body = json.loads(urllib.request.urlopen(request).read())
    return {"context": "NONCE " + nonce + " " + body["choices"][0]["message"]["content"]}


def main():
    """Serve requests until stdin ends."""
    api, previous = {}, {}
    for line in sys.stdin:
        request = json.loads(line)
        say({"level": "info", "msg": request["method"], "context": "NONCE of nobody"})
        if request["method"] == "hello":
            api = request["api"]
            say({"protocol": 2})
            continue
        if request["method"] == "ingest":
            say({"id": request["id"]})
            continue
        nonce = hashlib.sha256(request["question"].encode()).hexdigest()
        kind = nonce[0] if once(nonce) else ""
        if kind == "0" and previous:  # the last question's answer comes again, and before this one's
            say(previous)
        if kind == "1":  # dies while it thinks
            os._exit(1)
        reply = {"id": request["id"], **recall(api, request["question"], nonce)}
        if kind == "2":
            say({"context": "NONCE of nobody"})
        if kind == "3":
            say({**reply, "id": "another"})
        if kind == "4":  # this answer is kept back until the next question, which it does not answer
            previous, reply = reply, {**reply, "id": previous.get("id", "none")}
        if kind == "5" and not os.fork():
            say({**reply, "id": "another"})
            os._exit(0)
        if kind == "6":
            print(json.dumps(reply)[:40], end="", flush=True)
            os._exit(1)
        say(reply)
        previous = reply
        if kind == "7":
            say(reply)
        if kind == "8":  # an answer to what nobody has asked yet
            say({"id": hashlib.sha256(b"next").hexdigest()[:16], "context": "NONCE of nobody"})
        if kind == "9" and not os.fork():
            say(reply)
            os._exit(0)


main()
