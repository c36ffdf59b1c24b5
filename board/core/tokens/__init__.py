"""What is known of single tokens."""
