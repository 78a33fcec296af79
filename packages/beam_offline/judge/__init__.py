"""The stand-in's judge: a small trained model over features that can be read; `scripts/train_judge.py` trains it."""

from beam_offline.judge.verdicts import NuggetScore, align_batch, align_events, judge, judge_nugget, same_event

__all__ = ["NuggetScore", "align_batch", "align_events", "judge", "judge_nugget", "same_event"]
