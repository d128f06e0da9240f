"""A diagnosis as HTML, JSON, Markdown or terminal text."""
