"""The calls of a response, one by one and all together."""
