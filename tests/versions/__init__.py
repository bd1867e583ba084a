"""The tests about transports with other versions of the anthropic package, each in an environment of its own.

    python -m tests.versions                      # the five that count: `make compat-matrix`
    python -m tests.versions --count 2 --seed 7   # two of them, as CI does with a seed of the commit
    python -m tests.versions "==1.5.*" "<2"       # others

The first of the five is the declared minimum, and has the oldest versions of our other dependencies that are declared.
Environments stay in build/compat and are used again, with the other packages as they were then, until the requirements
change or a newer version is out; the project itself is built as a wheel and installed anew each time.
"""
