"""Coverage of the corrected averages with few labelled conversations: real verdicts, conversations drawn anew.

    .venv/bin/python benchmarks/corrected.py --draws 2000

The two mem0 runs at 1M have verdicts of GPT-5 and of the offline judge on all 35 conversations. These are taken for the
population: a sample draws 35 of them with replacement, GPT-5 is known on the first few, and the interval should hold
its mean over all. `worthless` puts chance in the place of the offline judge. Widths beside those of the labels alone.
"""

from __future__ import annotations

import argparse

import numpy as np
import numpy.typing as npt

from beam_field.judged_offline import GRADED, offline_judgements
from beam_field.prediction_powered import corrected
from beam_field.sources import judgements
from beamlib.scoring.scores import score_run

FEW = (3, 5, 7, 10, 20)
Scores = npt.NDArray[np.float64]


def by_conversation(run: str) -> tuple[Scores, Scores]:
    """The scores of both judges, (conversations, questions), of the questions that both have scored."""
    better, cheap = (score_run(own(run), "nugget-mean") for own in (judgements, offline_judgements))
    both = better.merge(cheap, on=["probe_id", "conversation_id"]).dropna(subset=["score_x", "score_y"])
    groups = [own[["score_x", "score_y"]].to_numpy(np.float64) for _, own in both.groupby("conversation_id")]
    width = max(map(len, groups))
    whole = np.stack([np.pad(own, ((0, width - len(own)), (0, 0)), constant_values=np.nan) for own in groups])
    return whole[..., 0], whole[..., 1]


def covered(better: Scores, cheap: Scores, labelled: int, draws: int, seed: int) -> tuple[float, float, float]:
    """The share of intervals that hold the mean, their mean width, and that of the labels alone."""
    draw, truth, found = np.random.default_rng(seed), float(np.nanmean(better)), []
    for _ in range(draws):
        chosen = draw.integers(0, len(better), len(better))
        all_cheap, labels = cheap[chosen], better[chosen].copy()
        labels[labelled:] = np.nan
        there = ~np.isnan(all_cheap)
        units = np.broadcast_to(np.arange(len(chosen))[:, None], there.shape)
        one = corrected(all_cheap[there], labels[there], units[there])
        known = there & ~np.isnan(labels)
        alone = corrected(np.zeros(known.sum()), labels[known], units[known])
        found.append((one.low <= truth <= one.high, one.high - one.low, alone.high - alone.low))
    return tuple(np.mean(found, axis=0))  # type: ignore[return-value]


def main() -> None:
    """Print a line per run, cheap judge and number of labelled conversations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print("run              cheap judge  labelled  coverage  width  labels alone")
    for run in GRADED:
        better, offline = by_conversation(run)
        chance = np.where(np.isnan(offline), np.nan, np.random.default_rng(given.seed).random(offline.shape))
        for name, cheap in (("offline", offline), ("worthless", chance)):
            for labelled in FEW:
                held, width, alone = covered(better, cheap, labelled, given.draws, given.seed)
                print(f"{run:16} {name:11} {labelled:9d} {held:9.3f} {width:6.3f} {alone:13.3f}", flush=True)


if __name__ == "__main__":
    main()
