"""Dumps of slime and of the frameworks made from it."""
