"""The pages, one file each. Files that begin with an underscore are shared by them.

_state: every choice a user can make, kept in the URL. _cached: everything that is kept between
reruns. _text: text from logs, made harmless for Streamlit's Markdown. _sidebar: what is chosen on
every page, with _part_of_run, _live and _run_summary.
"""
