"""For everybody: contrast, names and headings, a narrow screen, the dark, paper."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from browser_driver import Browser
from page_views import Look, each, go

VIEWS = ("#/", "#/list?arm=all&show=protocols", "#/q/100K-1-q04?gold=1&m=0", "#/verify")
CONTRASTS = """(() => {
  const channels = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => [r, g, b].map((v) => linear(v / 255))
    .reduce((sum, v, place) => sum + v * [0.2126, 0.7152, 0.0722][place], 0);
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const found = channels(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const unseen = ['SCRIPT', 'STYLE', 'NOSCRIPT', 'TITLE'];
  const found = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || unseen.includes(one.tagName.toUpperCase())) continue;
    if (!one.getClientRects().length) continue;
    const style = getComputedStyle(one);
    const ink = channels(one instanceof SVGElement ? style.fill : style.color);
    const [high, low] = [light(ink), light(ground(one))].sort((a, b) => b - a);
    const name = `${ink} on ${ground(one)} <${one.tagName} ${one.className.baseVal ?? one.className}>`;
    found.set(name, (high + 0.05) / (low + 0.05));
  }
  return [...found];
})()"""


def opened(browser: Browser) -> None:
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    browser.wait("!document.body.innerText.includes('loading …')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(page_run: Path, look: Look, scheme: str) -> None:
    """WCAG 2.2 AA: at least 4.5 to 1, measured on what is drawn."""
    browser = look(page_run)
    browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    lowest, grounds = [], set()
    for address in VIEWS:
        show(browser, address)
        found = browser.evaluate(CONTRASTS)
        assert len(found) > 3, address
        grounds.add(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
        lowest.append(min(found, key=lambda one: one[1]))
    assert [one for one in lowest if one[1] < 4.5] == []
    assert grounds == {"rgb(255, 255, 255)" if scheme == "light" else "rgb(15, 20, 26)"}


def show(browser: Browser, address: str) -> None:
    if address == "#/":
        browser.evaluate("location.hash = '#/'")
        browser.wait("!document.getElementById('document').hidden")
    else:
        go(browser, address)
    opened(browser)


def test_the_wrong_and_the_failed_have_contrast_too(page_run: Path, look: Look) -> None:
    browser = look(page_run)
    browser.evaluate("document.querySelectorAll('[data-cell]').forEach((one) => one.classList.add('wrong'))")
    for scheme in ("light", "dark"):
        browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        assert min(one[1] for one in browser.evaluate(CONTRASTS)) >= 4.5


def test_headings_landmarks_and_names(page_run: Path, look: Look) -> None:
    browser = look(page_run)
    for address in VIEWS:
        show(browser, address)
        found = each(browser, "h1,h2,h3,h4", "[Number(one.tagName[1]), one.getClientRects().length]")
        levels = [level for level, seen in found if seen]
        assert levels[0] == 1 and levels.count(1) == 1, address
        assert all(after - before <= 1 for before, after in pairwise(levels)), (address, levels)
        assert [len(each(browser, name, "1")) for name in ("main", "header", "footer", "html[lang=en]")] == [1, 1, 1, 1]
        assert browser.evaluate("document.title")
        nodes = browser.send("Accessibility.getFullAXTree")["nodes"]
        assert unnamed(nodes) == [], address
        assert (
            each(browser, "nav:not([aria-label]), section:not([aria-labelledby]):not([aria-label])", "one.outerHTML")
            == []
        )
    ids = each(browser, "[id]", "one.id")
    assert len(ids) == len(set(ids))


def unnamed(nodes: list[dict[str, Any]]) -> list[str]:
    """Controls, regions and pictures that a screen reader could not name."""
    named = {"link", "button", "textbox", "searchbox", "combobox", "checkbox", "region", "navigation", "image", "form"}
    return [
        json.dumps(one)[:200]
        for one in nodes
        if not one.get("ignored") and one["role"]["value"] in named and not one.get("name", {}).get("value")
    ]


def test_a_narrow_screen_scrolls_down_only(page_run: Path, look: Look) -> None:
    browser = look(page_run)
    browser.send("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=2, mobile=True)
    for address in VIEWS:
        show(browser, address)
        assert browser.evaluate("document.scrollingElement.scrollWidth") == 390, address


def test_on_paper_nothing_is_cut_and_no_control_is_printed(page_run: Path, look: Look) -> None:
    browser = look(page_run, VIEWS[2])
    browser.send("Emulation.setEmulatedMedia", media="print")
    assert each(browser, ".filters, .steps, header nav", "getComputedStyle(one).display") and set(
        each(browser, ".filters, .steps, header nav", "getComputedStyle(one).display")
    ) == {"none"}
    assert set(each(browser, ".answer", "getComputedStyle(one).maxHeight")) == {"none"}
    assert len(browser.send("Page.printToPDF")["data"]) > 10_000
    browser.send("Emulation.setEmulatedMedia", media="")


def test_what_scrolls_can_be_reached_by_keyboard_and_focus_is_seen(page_run: Path, look: Look) -> None:
    browser = look(page_run, VIEWS[2])
    assert set(each(browser, ".scroll", "one.tabIndex")) == {0}
    browser.send("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
