"""Questions to a run's index as SQL: DuckDB over the Parquet segments that the store writes."""
