"""How a framework's rollouts reach the exporter: one file a framework, recipes in docs/hooks.md.

None of these modules imports its framework: they take what its code hands over, by name.
"""
