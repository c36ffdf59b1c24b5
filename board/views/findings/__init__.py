"""What the rules find, and what is wrong with the log."""
