"""`beamlib page RUN --verify`: a browser opens the page and recomputes each number that it prints."""

from __future__ import annotations

import json
from pathlib import Path

from beam_page.browser import BROWSERS, find_browser, open_browser
from beam_page.sections import INDEX
from beamlib.errors import UserError

_SHOWN = 10


def verify_page(run: Path) -> str:
    """A line that says what was checked; `UserError` where a number does not follow, or no browser is installed."""
    page = run / INDEX
    if not page.is_file():
        raise UserError(f"{page}: there is no page; write it with `beamlib page {run}`.")
    program = find_browser()
    if program is None:
        raise UserError(
            f"--verify: no browser is installed (looked for {', '.join(BROWSERS)}); install one, for example "
            "`apt-get install chromium`, or open the page and press “Check these numbers”."
        )
    with open_browser(program) as browser:
        browser.open(page.absolute().as_uri())
        if not browser.evaluate("typeof beamVerify === 'function'"):
            raise UserError(f"{page}: its scripts do not run; write the page anew with `beamlib page {run}`.")
        result = json.loads(browser.evaluate("beamVerify().then((found) => JSON.stringify(found))"))
    if wrong := result["wrong"]:
        names = ("protocol", "treatment", "series", "size", "ability")
        lines = [
            f"  {', '.join(one[name] for name in names)}: printed {one['printed']}, recomputed {one['found']}"
            for one in wrong[:_SHOWN]
        ]
        more = f"\n  and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise UserError(
            f"{page}: {len(wrong)} of {result['checked']} numbers do not follow from its verdicts; write it anew with "
            f"`beamlib page {run}`.\n" + "\n".join(lines) + more
        )
    protocols = ", ".join(result["protocols"])
    return f"{page}: all {result['checked']:,} numbers follow from its verdicts ({protocols})"
