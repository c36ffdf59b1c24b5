"""What hooks share: their guard, and what trainers know of rollouts in the words of the record."""
