"""Labels: what people say of rollouts, and which share of the run that is."""
