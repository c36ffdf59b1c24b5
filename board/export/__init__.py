"""Findings and rollouts of a run as one HTML file that needs no server, to send, print or keep."""
