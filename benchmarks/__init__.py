"""Benchmarks: both sides in one run, on the same streams, with ratios. `python -m benchmarks --help`."""
