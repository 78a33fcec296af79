"""BEAM and LIGHT: a reproducible artifact."""
