"""Memories that a run takes by name: every module here that declares one (docs/own-memory.md) is found by itself."""
