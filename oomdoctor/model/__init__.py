"""The nouns: frozen dataclasses without I/O. Everything that passes between two stages is one of these."""
