"""The tests about transports with other versions of the anthropic package, each in an environment of its own.

    python -m tests.versions                      # the five that count, which `make compat-matrix` and CI run
    python -m tests.versions "==1.5.*" "<2"       # others

The first of the five is the declared minimum, and has the oldest versions of our other dependencies that are declared.
Environments stay in build/compat and are used again, with the other packages as they were then, until the requirements
change or a newer version is out; the project itself is built as a wheel and installed anew each time.
"""
