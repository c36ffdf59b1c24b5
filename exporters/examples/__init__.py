"""Trainings small enough for a laptop that write real rollout logs."""
