"""Tools: typed functions that the service runs."""
