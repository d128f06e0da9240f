"""Before a long run: what stands in its way, and what could not be seen."""
