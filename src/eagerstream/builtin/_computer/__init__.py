"""The `computer` tool and its toolset: what the model does to a screen, and a page in Chromium as one."""
