"""From inputs to evidence: one file per kind of input."""
