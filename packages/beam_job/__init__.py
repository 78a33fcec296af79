"""The main job: conversations, evaluation, notebooks, the page over all of it."""
