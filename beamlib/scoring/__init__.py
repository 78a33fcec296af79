"""Judging answers, scoring judgements, and saying how sure a mean is.

`judge` asks, `protocols` count, `scores` average, `intervals` bound, `spread` compares repeats. Only this package and
what builds on it may import gold data.
"""
