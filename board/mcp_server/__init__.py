"""A server of the Model Context Protocol: a coding agent asks about the runs under a folder."""
