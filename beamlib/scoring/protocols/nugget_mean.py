"""`nugget-mean`: all ten abilities alike.

- Formula: mean of the nugget scores with half credit, event ordering included; then means over questions.
- Prompts: listing 20 with the question filled in.
- Source: the paper's nugget procedure, extended to the one ability it exempts; the released code stores the same
  number for event ordering and does not report it.
- Known deviation: the order of events counts only where a nugget asks for it (1 of the 200 published rubrics).
"""

from __future__ import annotations

from beamlib.scoring.protocols.base import Protocol, rubric_mean

PROTOCOL = Protocol("nugget-mean", "rubric mean with half credit, event ordering too", rubric_mean)
