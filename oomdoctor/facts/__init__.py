"""From evidence to facts: one deriver per subject."""
