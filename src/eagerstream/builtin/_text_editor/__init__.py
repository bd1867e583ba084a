"""Text editors: Anthropic's own, and one whose new files grow on disk while the model writes them."""

from __future__ import annotations

from .eager import EagerTextEditor
from .tool import TextEditor

__all__ = ["EagerTextEditor", "TextEditor"]
