"""One module per command: `main` takes its parsed arguments and returns the exit code."""
