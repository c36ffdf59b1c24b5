"""What reads rollouts of a log again: tokens, words, mismatch and findings."""
