"""Measuring what fits: one watched run a setting, what grows with what, and the map of it."""
