"""The general helpers, each by itself."""
