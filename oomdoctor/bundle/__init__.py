"""The incident bundle on disk: written crash-safely, read back up to its last whole record."""
