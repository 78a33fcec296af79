"""What others published about BEAM: their verdicts as numbers, their scores, and the import of their result files."""
