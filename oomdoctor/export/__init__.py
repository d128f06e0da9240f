"""A snapshot in the forms that other tools read."""
