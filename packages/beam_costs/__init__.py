"""What a run's model calls come to: the estimate before, the costs after."""
