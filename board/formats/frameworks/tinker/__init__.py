"""Logs of Tinker's cookbook."""
