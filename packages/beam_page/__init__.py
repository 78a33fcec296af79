"""The page of a run: from every number to the question, context, answer and verdict behind it."""
