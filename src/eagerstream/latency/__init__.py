"""The latency lab: runs measured again and again, in every combination that matters, and what can be said of it.

`eagerstream bench` is its front (`command.py`): a matrix of cases (`matrix.py`) is measured in turn (`measure.py`), on
the live API or on the embedded server, whose times are simulated (`profiles.py`); what the figures allow to be said
(`statistics.py`) is kept as JSON (`results.py`), and shown in the terminal and as a page (`report.py`). The marks of a
single run are made in `streaming` and `loop`; `run.latency` reports what follows from them.
"""
