"""Texts and conversations: turns, differences, phrases."""
