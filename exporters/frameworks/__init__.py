"""What trainers know of their rollouts, in the words of the record; hooks hand it to the exporter."""
