"""The commands of `eagerstream` that this package brings."""
