"""The server that several rooms share, by itself."""
