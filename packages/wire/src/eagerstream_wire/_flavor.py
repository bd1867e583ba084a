"""Report the flavor of the wire core: compiled, or plain Python."""

from __future__ import annotations

from importlib.machinery import ExtensionFileLoader

from . import _partial_json


def is_compiled() -> bool:
    """Return True if the wire core of this process is compiled, and False if it runs as plain Python.

    `pip install eagerstream-wire` installs the compiled one if there is a wheel for this platform and this Python.
    If the environment has `EAGERSTREAM_PURE=1`, a process runs the sources that are in each wheel.
    """
    return isinstance(_partial_json.__loader__, ExtensionFileLoader)
