"""Text editors: Anthropic's own, and one whose new files grow on disk while the model writes them."""
