"""A run's calls and results as one archive that anybody can check."""
