"""do: all I/O that a workflow asks for. Each process imports only the modules it runs."""
