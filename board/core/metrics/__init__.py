"""What is measured of each rollout, and how it is averaged."""
