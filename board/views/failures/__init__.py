"""Failures: a part of the page Findings."""
