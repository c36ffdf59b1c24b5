"""Finds the runs under a folder, and the format of each of their files."""
