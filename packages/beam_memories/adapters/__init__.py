"""Adapters of other memory systems: mem0, graphiti, langmem."""
