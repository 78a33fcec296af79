"""What other benchmarks have alike: an order and its yes, the record of what was generated, a part in the main job."""
