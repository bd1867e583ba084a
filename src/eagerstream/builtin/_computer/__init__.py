"""The `computer` tool and toolset."""
