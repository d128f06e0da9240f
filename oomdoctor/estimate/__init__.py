"""What a model needs before it runs: every formula once."""
