"""What findings ask of a run besides its curves: series, and relations between columns."""
