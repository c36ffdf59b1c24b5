"""The prompts of a run and how they went."""
