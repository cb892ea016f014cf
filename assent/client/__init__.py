"""What agents ask with."""
