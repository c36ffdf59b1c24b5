"""What a call hands over, copied and cut into one rollout each."""
