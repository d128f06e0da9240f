"""A model of torch's caching allocator, and what it says of a recorded run under other settings or on another card."""
