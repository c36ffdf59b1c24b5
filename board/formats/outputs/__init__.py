"""What tools answered in a rollout, and what it ends with."""
