"""The sampler against the trainer."""
