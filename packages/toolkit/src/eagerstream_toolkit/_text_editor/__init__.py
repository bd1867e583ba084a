"""Text editors: Anthropic's own, and `EagerTextEditor`, which writes new files to disk as the model writes them."""
