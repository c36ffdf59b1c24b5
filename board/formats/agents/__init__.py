"""What agents are logged in, whatever framework ran them: ATIF and Harbor's jobs, OpenTelemetry."""
