"""What several pages use: the choices in the URL, caches, long work, and parts of pages."""
