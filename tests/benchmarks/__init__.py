"""Tests of the benchmarks' own logic; nothing here measures."""
