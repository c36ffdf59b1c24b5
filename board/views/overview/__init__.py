"""The curves of a run over its steps."""
