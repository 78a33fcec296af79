"""Judge answers, score judgements, and bound means by intervals.

`judge` calls models, `protocols` score a question, `scores` average, `intervals` bound. Only this package and what
builds on it may import gold data.
"""
