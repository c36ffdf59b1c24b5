"""Pure computation on records: numpy and the standard library only. Nothing here opens a log."""
