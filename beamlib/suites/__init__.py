"""Other benchmarks, run and scored with the same models and memories."""
