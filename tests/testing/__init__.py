"""Replies without the API: their timing, their scripts, and the server that plays them."""
