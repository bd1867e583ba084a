"""The `computer` tool and toolset, and a Chromium page as the computer."""
