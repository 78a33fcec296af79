"""The offline author: conversations from a seeded scenario, written by a phrase grammar. No language model."""
