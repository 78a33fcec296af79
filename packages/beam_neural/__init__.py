"""Dense and sparse encoders that are neural models; `beamlib.retrieval` finds them by name."""
