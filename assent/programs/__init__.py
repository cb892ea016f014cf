"""Programs that ask while they run: what their lines mean, and how a process is run and written to."""
