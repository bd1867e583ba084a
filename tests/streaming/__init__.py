"""One response: its events, its buffer, its observers, and its marks."""
