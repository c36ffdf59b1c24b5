"""Runs on disk: which there are, what is in them, and one rollout whole. No Streamlit here."""
