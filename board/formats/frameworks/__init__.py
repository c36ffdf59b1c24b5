"""Formats of training frameworks, one module each."""
