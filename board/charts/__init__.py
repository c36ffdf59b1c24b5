"""Frames and arrays in, plotly figures out: pure functions that know neither Streamlit nor files.

Figures carry their own colours and fonts (show them with theme=None) and, in layout.meta, notes
for the reader (`layout.notes_of`).
"""
