"""What can be set where: options, their spellings and the versions they exist in."""
