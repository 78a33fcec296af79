"""Draws the first screen of the page for the README: `python tests/page_picture.py`; a test says when it is due.

The run is `./run_all.sh --sizes 100k --name example`, made where it is missing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from browser_driver import Browser, find_browser, open_browser

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/images/page.png"
_COLOURS = 64
_COARSE = (55, 38)


def draw(browser: Browser, run: Path, path: Path) -> None:
    """Write the first screen of the page of `run` to `path`."""
    size = {"width": 1100, "height": 760, "deviceScaleFactor": 1, "mobile": False}
    browser.send("Emulation.setDeviceMetricsOverride", **size)
    browser.open((run / "index.html").as_uri())
    browser.wait("document.documentElement.dataset.ready !== undefined")
    browser.wait("[...document.images].slice(0, 3).every(image => image.complete)")
    browser.picture(path)
    Image.open(path).convert("RGB").quantize(_COLOURS).save(path, optimize=True)


def difference(one: Path, other: Path) -> float:
    """How far two pictures are apart, 0 to 1, by their coarse shapes: fonts differ between machines, layouts do not."""

    def coarse(path: Path) -> NDArray[np.float64]:
        return np.asarray(Image.open(path).convert("L").resize(_COARSE, Image.Resampling.BOX), dtype=float) / 255

    return float(np.abs(coarse(one) - coarse(other)).mean())


if __name__ == "__main__":
    made = ROOT / "runs/example"
    if not (made / "index.html").exists():
        subprocess.run([ROOT / "run_all.sh", "--sizes", "100k", "--name", made.name], check=True, cwd=ROOT)
    program = find_browser()
    if program is None:
        sys.exit("no browser is installed: apt-get install chromium")
    with open_browser(program) as opened:
        draw(opened, made, PICTURE)
