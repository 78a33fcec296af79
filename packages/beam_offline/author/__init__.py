"""The offline author: conversations from a seeded scenario of strands, written by a phrase grammar. No language model."""
