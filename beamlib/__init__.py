"""BEAM and LIGHT: a reproducible artifact of the paper "Beyond a Million Tokens".

The notebooks tell the story; this package holds what two notebooks share or what a test must reach.
"""

__version__ = "0.1.0"
