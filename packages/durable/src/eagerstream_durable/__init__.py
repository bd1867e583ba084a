"""Runs that survive a crash. Import each module by itself; most need an extra.

- `eagerstream_durable.journal`: a journal of runs in SQLite or PostgreSQL, and the worker that continues them.
- `eagerstream_durable.workers`: tools in other processes.
- `eagerstream_durable.ray`: tools that run on a Ray cluster (extra `ray`).
- `eagerstream_durable.dbos`: runs in workflows of DBOS (extra `dbos`).
- `eagerstream_durable.temporal`: runs in activities of Temporal (extra `temporal`).
"""
