"""Bytes of files and stores as rows: JSON lines, documents, Parquet, torch, text."""
