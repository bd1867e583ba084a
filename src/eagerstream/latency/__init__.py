"""The latency lab: runs measured again and again, in every combination that matters, and what can be said of it.

| `_command.py` | `eagerstream bench`, its front |
| `_matrix.py`, `_sources.py` | the cases, and what they are made of |
| `_measure.py`, `_embedded.py` | measures them in turn, on the live API or on the embedded server |
| `_profiles.py`, `_fitted.py` | simulated times for the embedded server |
| `_statistics.py`, `_analysis.py`, `_results.py` | what the figures allow to be said, kept as JSON |
| `_terminal.py`, `_report.py` | shows it in the terminal, and as a page |

The marks of a single run are made in `streaming` and `loop`; `run.latency` reports what follows from them.
"""
