"""Observers of a run: they are fed its events and show them. Never participants: nothing here changes a run."""
