"""Groups of rollouts of one prompt, and environments."""
