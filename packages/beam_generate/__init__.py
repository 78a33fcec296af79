"""Generation of conversations and probing questions (paper sections 2.2 and 2.3, Algorithms 1 to 3)."""
