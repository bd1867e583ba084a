"""The wire core, tested alone: no network, no event loop."""
