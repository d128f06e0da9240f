"""Log readers: one file per family of messages."""
