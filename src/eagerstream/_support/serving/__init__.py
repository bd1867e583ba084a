"""A socket for an ASGI application, checks of its requests, and a command as its client."""
