"""Memory systems of others, taken in by their names: mem0, graphiti, langmem."""
