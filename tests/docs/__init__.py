"""Tests of the docs: their programs, their links and their prose."""

import pytest

pytest.register_assert_rewrite("tests.docs.scenarios")  # pytest explains its assertions as it does those of tests
