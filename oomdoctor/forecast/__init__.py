"""An estimate, shown: terminal, Markdown, JSON, HTML."""
