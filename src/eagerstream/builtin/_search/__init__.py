"""Web search as a tool of the client: Brave, Wikipedia, or one's own, with results that can be cited."""
