"""Tests of the types that users see: type checkers find mistakes, and accept correct programs."""
