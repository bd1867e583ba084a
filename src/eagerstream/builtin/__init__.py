"""Tools that come with the library: ready to be given to `run`."""
