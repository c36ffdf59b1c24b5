"""Rollout Board: from a spike on a curve to the guilty token, in any RL framework's rollout log.

Imports run one way: app -> views -> {components, charts, store} -> readers -> core.
"""

__version__ = "0.1.0"
