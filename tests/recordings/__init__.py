"""The format of recordings, and the masking of secrets in them."""
