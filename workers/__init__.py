"""run: one module per process."""
