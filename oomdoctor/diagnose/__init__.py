"""From inputs to a finished diagnosis."""
