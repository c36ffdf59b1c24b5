"""Puts this folder on the path, for the logs that tests of the pages are run on (`written_logs`)."""
