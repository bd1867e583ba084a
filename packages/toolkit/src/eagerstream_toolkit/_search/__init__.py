"""Web search as a client-side tool, with citable results: Brave, Wikipedia, or your own service."""
