"""A function becomes a tool; a call becomes a result."""
