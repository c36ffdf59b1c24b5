"""The list of rollouts, one rollout token by token, and the search for words."""
