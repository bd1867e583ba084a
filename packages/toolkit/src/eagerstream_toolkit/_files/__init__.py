"""Files of a folder, read, written and edited with optimistic locks."""
