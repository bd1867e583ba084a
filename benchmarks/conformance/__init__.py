"""Scores of other libraries on the conformance vectors: `make conformance`.

`python/` and `npm/peers/` have an adapter for each. An adapter calls its library as a user of it would, and
answers only what the library says.
"""
