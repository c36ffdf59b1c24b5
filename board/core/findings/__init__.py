"""Rules that look over a run and say where to look first: `rules` lists them, `facts` is what they see.

Nothing is imported here: the facts of a run are made without its rules.
"""
