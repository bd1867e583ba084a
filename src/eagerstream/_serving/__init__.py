"""A socket for an ASGI application, and who may use it: shared by the servers of several rooms."""
