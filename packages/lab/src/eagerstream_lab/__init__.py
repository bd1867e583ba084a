"""Latency lab: repeated measurements of runs in every combination of options, and their statistics.

| `_command.py`, `_options.py`, `_setup.py` | the command `eagerstream bench`, and what its parts share |
| `_matrix.py`, `_sources.py` | the cases, and their parts |
| `_measure.py`, `_embedded.py`, `_answers.py` | measure the cases in turn, on the live API or on the embedded server |
| `_programs.py`, `_wire.py` | run programs of others, and measure them at a proxy |
| `_profiles.py`, `_fitted.py` | simulated times for the embedded server |
| `_plan.py`, `_statistics.py`, `_analysis.py` | which figures get verdicts, exact intervals, results |
| `_noise.py`, `_machine.py` | warnings of a noisy machine, and what it is |
| `_goodness.py`, `_fit_command.py` | how well a fitted profile matches its recordings; `eagerstream bench fit` |
| `_signals.py` | Ctrl-C during a measurement |
| `_results.py`, `_exports.py` | results as JSON, and for other programs as CSV, JSON or OpenMetrics |
| `_load_command.py`, `_load_plan.py` | the command `eagerstream bench load`, its levels and intended starts |
| `_load_measure.py`, `_load_client.py`, `_load_watch.py` | drive the clients, and see which process is too slow |
| `_load_runs.py`, `_load_wire.py` | the runs of a client, and those that a proxy saw |
| `_load_figures.py`, `_load_results.py`, `_load_exports.py` | percentiles, goodput and the knee, and their files |
| `_load_terminal.py`, `_load_report.py`, `_load_charts.py` | show them |
| `_saved_runs.py` | the command `eagerstream bench show`: figures and time lines of saved runs |
| `_compare.py`, `_comparison.py` | the command `eagerstream bench compare`: several benchmarks, or the cases of one |
| `_limits.py`, `_trend.py`, `_markdown.py` | limits for CI, figures over many benchmarks, comments for pull requests |
| `_terminal.py`, `_report.py`, `_page.py` | show the results in the terminal and as a page |

`streaming` and `loop` record the marks of a single run. `run.latency` reports the figures derived from them.
"""
