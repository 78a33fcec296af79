"""A memory of the user's own, in a process of its own."""
