"""What the stand-in made is folded and small in the notebooks of other benchmarks, below what was published."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from beamlib.places import NOTEBOOKS

CELL = """
from IPython.display import HTML, Image, display
from beam_run.shown_tasks import folded
png = bytes.fromhex("89504e470d0a1a0a") + bytes(24)
for by_stand_in in (True, False):
    with folded(by_stand_in, "Scores <of> all; the rest. And more"):
        print("one < two")
        display(HTML("<table>cells</table>"), Image(data=png, format="png", width=720))
"""
SHELL = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
shell = InteractiveShell.instance()
with capture_output() as seen:
    done = shell.run_cell(sys.argv[1])
assert done.success, seen.stdout
print(json.dumps([[*map(str, output.data.values())] for output in seen.outputs]))
print(seen.stdout)
"""


def test_what_the_stand_in_made_is_folded_and_what_a_model_made_is_not() -> None:
    done = subprocess.run([sys.executable, "-c", SHELL, CELL], capture_output=True, text=True, check=True, timeout=120)
    first, _, printed = done.stdout.partition("\n")
    folded, table, picture = json.loads(first)
    assert len([part for part in folded if part.startswith("<details><summary>Scores &lt;of&gt; all, by the ")]) == 1
    text = next(part for part in folded if part.startswith("<details>"))
    assert "<pre>one &lt; two" in text and "<table>cells</table>" in text and text.endswith("</details>")
    assert '<img width="320" src="data:image/png;base64,iVBORw0KGgo' in text
    assert any("<table>cells</table>" in part for part in table) and not any("<details>" in part for part in table)
    assert not any("<details>" in part for part in picture)
    assert printed.strip() == "one < two"


@pytest.mark.parametrize(("name", "own"), [("10_memorycode", "## From here on"), ("11_meme", "## This run")])
def test_published_values_and_claims_come_before_what_this_run_made(name: str, own: str) -> None:
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells]
    begin = next(place for place, text in enumerate(sources) if text.startswith(own))
    before, after = "\n".join(sources[:begin]), sources[begin:]
    assert "published" in before and "engine.markdown(" in before and "own_r" not in before
    shown = [text for text in after if ".save_table(" in text or ".save_captioned(" in text]
    assert shown and all("folded(" in text for text in shown)
