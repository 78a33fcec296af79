"""The offline author: conversations from a seeded world of strands, written by a phrase grammar. No language model."""
