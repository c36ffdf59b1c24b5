"""What people say of rollouts: entries of a label file, the labels that they leave, and their shares.

A rollout has at most one label of each author, and any number of labelled spans of tokens.
"""
