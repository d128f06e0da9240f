"""What a caching allocator did: replay of its history, fragmentation, owners."""
