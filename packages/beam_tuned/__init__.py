"""The retrieval index that is tuned on BEAM, `hybrid-beam`; `beamlib.retrieval` takes it by that name alone."""
