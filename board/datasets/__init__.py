"""Data sets of a run's rollouts: tables, and conversations that a trainer takes."""
