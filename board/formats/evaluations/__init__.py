"""Evaluations and the trajectories of agents, a file each: see board.formats.base."""
