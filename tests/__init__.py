"""The tests of eagerstream; `support` holds what they share."""
