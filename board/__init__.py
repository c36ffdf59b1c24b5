"""Rollout Board: from a spike on a curve to the guilty token, in any RL framework's rollout log.

Imports run one way: app -> views -> {components, charts, store} -> readers -> core.
"""

import os

__version__ = "0.1.0"

# Read by Arrow when it is first imported. Its own allocator keeps what a long scan has freed: a process
# that builds an index grew by 80 MB for each GB it read.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
