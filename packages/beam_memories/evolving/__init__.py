"""Memories for facts that change: files that a model edits by tools, and a ledger of dependencies."""
