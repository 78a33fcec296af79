"""Memories for facts that change: files kept by a model with tools, and dependencies noted when they are told."""
