"""Demos of the main use: a poem streams into one tool's input while two other tools run."""
