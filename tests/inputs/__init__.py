"""Growing inputs, and the checks of their schemas."""
