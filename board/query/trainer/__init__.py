"""The trainer's own scalars beside the rollouts, and whether the two agree."""
