"""SQL that users write, within bounds, and values as they are written out."""
