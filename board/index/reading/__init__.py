"""Reads logs: bytes of files to rows, in this process and in others."""
