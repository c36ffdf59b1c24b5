"""Several runs against one another, with intervals."""
