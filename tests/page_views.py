"""What tests of a page do in the browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from browser_driver import Browser

Look = Callable[..., Browser]
"""Opens a view of a run's page by its address."""


def go(browser: Browser, address: str) -> None:
    """To another view of the page that is open, as by a link in it."""
    there = json.dumps(address)
    move = f"location.hash === {there} ? dispatchEvent(new Event('hashchange')) : (location.hash = {there})"
    browser.evaluate(f"document.getElementById('view').replaceChildren(), {move}, 1")
    browser.wait("document.querySelector('#view h1')")


def text_of(browser: Browser, selector: str) -> str:
    return str(browser.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))


def press(browser: Browser, key: str) -> None:
    """A key that writes a character, wherever the focus is."""
    for kind in ("keyDown", "keyUp"):
        browser.send("Input.dispatchKeyEvent", type=kind, key=key, text=key)


def each(browser: Browser, selector: str, what: str) -> list[Any]:
    """The value of the script `what`, in which `one` is the element, of every element."""
    script = f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => {what})"
    return list(browser.evaluate(script))
