"""A server that sends a second complete reply on the same connection never answers the next question with it."""

from __future__ import annotations

import json
import re
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import Completion, Prompt, attempt_all
from scripted_server import completion


class TwoReplies(socketserver.StreamRequestHandler):
    """Sends the answer to each request, and `pause` seconds later a reply that answers nothing."""

    pause: float

    def handle(self) -> None:
        while line := self.rfile.readline():
            length = 0
            while (line := self.rfile.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            body = json.loads(self.rfile.read(length))
            number = re.findall(r"What about (\d+)\?", body["messages"][-1]["content"])[0]
            time.sleep(0.02)  # longer than a late reply takes, so that it can come first
            right, surplus = (self.reply(body, text) for text in (number, "surplus"))
            try:
                if self.pause:
                    self.wfile.write(right)
                    time.sleep(self.pause)
                    self.wfile.write(surplus)
                else:
                    self.wfile.write(right + surplus)
            except ConnectionError:
                return

    @staticmethod
    def reply(body: dict[str, object], text: str) -> bytes:
        content = json.dumps(completion(body, text)).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        return head.encode() + content


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 128


@contextmanager
def serving(pause: float) -> Iterator[str]:
    with Server(("127.0.0.1", 0), type("Handler", (TwoReplies,), {"pause": pause})) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()


@pytest.mark.parametrize("pause", [0.0, 0.001, 0.01])
@pytest.mark.parametrize("at_once", [1, 16])
def test_a_surplus_reply_answers_no_question(pause: float, at_once: int) -> None:
    prompts = [Prompt("answer", {"question": f"What about {n}?", "context": "Ada likes tea."}) for n in range(48)]
    with serving(pause) as address:
        endpoint = Endpoint(model="m", base_url=address, context_window=32_000, concurrency=at_once)
        replies = attempt_all(EndpointModel("reader", endpoint), prompts)
    texts = [reply.text if isinstance(reply, Completion) else reply.reason for reply in replies]
    assert texts == [str(number) for number in range(48)]
