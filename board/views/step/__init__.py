"""One step: its groups, and the tokens that contribute to a metric."""
