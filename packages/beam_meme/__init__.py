"""MEME (arXiv 2605.12477): episodes of sessions in which facts change, depend on one another and are deleted."""
