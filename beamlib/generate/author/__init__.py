"""The offline author: writes plans, messages and gold of a conversation from a seeded world, by rules.

It is not a language model. Same seed, same bytes: every draw comes from `random.Random` seeded with a text.
"""
