"""The language of filters and of curves."""
