"""The MemoryCode benchmark: dialogues, answers, and their scores by rules over parsed code (arXiv 2502.13791)."""
