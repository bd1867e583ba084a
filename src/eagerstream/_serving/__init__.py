"""A socket for an ASGI application, and checks of its requests: shared by the servers of several rooms."""
