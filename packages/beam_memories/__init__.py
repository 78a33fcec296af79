"""Memories beyond the core: the user's own, adapters of other systems, memories for evolving facts, neural encoders."""
