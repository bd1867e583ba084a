"""The tables and the statements of a journal, for SQLite and PostgreSQL. A database adapts them a little.

`?` is a parameter, `NOW_S` the time by the clock of the database, and `BLOB` the type of bytes.
"""

from __future__ import annotations

from typing import Final

from ._contents import SEALED_BYTES

SCHEMA_VERSION: Final = 2

SCHEMA: Final = (
    # `encryption`: a text under the key, by which a wrong key is found. `last_fence`: of all deleted runs.
    """CREATE TABLE IF NOT EXISTS eagerstream_journal (
        id BIGINT PRIMARY KEY, version BIGINT NOT NULL, encryption BLOB, last_fence BIGINT NOT NULL)""",
    # `fence` grows with each owner, and `beat` with each sign of life. `owner` is the unique name of an ownership; null
    # if the run was released. `entries_seal` and `inbox_seal` say which entries and messages there are; see `_seals`.
    # `ended_s` is null unless the run was released with the status of an end. The times are for people and for `prune`,
    # and so is the turn of an entry, which its content has, too.
    """CREATE TABLE IF NOT EXISTS eagerstream_runs (
        run_id TEXT PRIMARY KEY, fence BIGINT NOT NULL, beat BIGINT NOT NULL, owner TEXT,
        lease_s DOUBLE PRECISION NOT NULL, status TEXT NOT NULL, summary TEXT NOT NULL, next_seq BIGINT NOT NULL,
        entries_seal BLOB NOT NULL, size_bytes BIGINT NOT NULL, next_message BIGINT NOT NULL, inbox_seal BLOB NOT NULL,
        created_s DOUBLE PRECISION NOT NULL, changed_s DOUBLE PRECISION NOT NULL, ended_s DOUBLE PRECISION)""",
    """CREATE TABLE IF NOT EXISTS eagerstream_entries (
        run_id TEXT NOT NULL, seq BIGINT NOT NULL, turn BIGINT NOT NULL, content BLOB NOT NULL,
        PRIMARY KEY (run_id, seq))""",
    """CREATE TABLE IF NOT EXISTS eagerstream_inbox (
        run_id TEXT NOT NULL, number BIGINT NOT NULL, token TEXT NOT NULL, content BLOB NOT NULL,
        PRIMARY KEY (run_id, number))""",
    f"INSERT INTO eagerstream_journal SELECT 1, {SCHEMA_VERSION}, NULL, 0 WHERE 1 = 1 ON CONFLICT DO NOTHING",
)

VERSION: Final = "SELECT version FROM eagerstream_journal WHERE id = 1"

# --- the key ----------------------------------------------------------------------------------------------------------

SET_ENCRYPTION: Final = """
    UPDATE eagerstream_journal SET encryption = ? WHERE id = 1 AND encryption IS NULL AND last_fence = 0
    AND NOT EXISTS (SELECT 1 FROM eagerstream_runs)"""

ENCRYPTION: Final = "SELECT encryption FROM eagerstream_journal WHERE id = 1"

# --- owners -----------------------------------------------------------------------------------------------------------

GUARD: Final = "run_id = ? AND fence = ? AND owner = ?"
"""True for the row of a run as long as an ownership lasts."""

_IF_OWNED: Final = f"EXISTS (SELECT 1 FROM eagerstream_runs WHERE {GUARD})"
_IF_OWNER: Final = "EXISTS (SELECT 1 FROM eagerstream_runs WHERE run_id = ? AND owner = ?)"
_IF_WRITING: Final = f"EXISTS (SELECT 1 FROM eagerstream_runs WHERE {GUARD} AND next_seq = ?)"

CREATE_RUN: Final = """
    INSERT INTO eagerstream_runs (run_id, fence, beat, owner, lease_s, status, summary, next_seq, entries_seal,
    size_bytes, next_message, inbox_seal, created_s, changed_s)
    SELECT ?, 0, 0, ?, ?, 'running', '{}', 1, ?, ?, 1, ?, NOW_S, NOW_S WHERE 1 = 1 ON CONFLICT DO NOTHING"""

FIRST_FENCE: Final = """
    UPDATE eagerstream_runs SET fence = 1 + (SELECT last_fence FROM eagerstream_journal WHERE id = 1)
    WHERE run_id = ? AND owner = ? AND fence = 0"""
"""A statement of its own, because it sees the deletion for which `CREATE_RUN` may have waited."""

CREATE_ENTRY: Final = f"""
    INSERT INTO eagerstream_entries (run_id, seq, turn, content) SELECT ?, 0, ?, ? WHERE {_IF_OWNER}
    ON CONFLICT DO NOTHING"""

CLAIM: Final = """
    UPDATE eagerstream_runs SET fence = fence + 1, beat = beat + 1, owner = ?, lease_s = ?, changed_s = NOW_S
    WHERE run_id = ? AND (owner IS NULL OR (fence = ? AND beat = ?))"""

OWNER: Final = "SELECT fence, beat, owner, lease_s, next_seq FROM eagerstream_runs WHERE run_id = ?"

CHANGED_S: Final = "SELECT changed_s FROM eagerstream_runs WHERE run_id = ?"

UNDO_CLAIM: Final = "UPDATE eagerstream_runs SET owner = NULL WHERE run_id = ? AND owner = ?"

UNDO_CREATE: Final = (
    f"DELETE FROM eagerstream_entries WHERE run_id = ? AND {_IF_OWNER}",
    "DELETE FROM eagerstream_runs WHERE run_id = ? AND owner = ?",
)

# --- entries ----------------------------------------------------------------------------------------------------------

BEAT: Final = f"UPDATE eagerstream_runs SET beat = beat + 1, changed_s = NOW_S WHERE {GUARD} AND next_seq = ?"

ADVANCE: Final = f"""
    UPDATE eagerstream_runs SET next_seq = ?, entries_seal = ?, size_bytes = ?, status = 'running', ended_s = NULL,
    beat = beat + 1, changed_s = NOW_S WHERE {GUARD} AND next_seq = ?"""
"""Comes first in a transaction. The others are done only if it was, now or by an earlier attempt."""

ADD_ENTRY: Final = f"""
    INSERT INTO eagerstream_entries (run_id, seq, turn, content) SELECT ?, ?, ?, ? WHERE {_IF_WRITING}
    ON CONFLICT DO NOTHING"""

SETTLE: Final = f"DELETE FROM eagerstream_entries WHERE run_id = ? AND seq > ? AND seq < ? AND {_IF_WRITING}"

DROP_MESSAGES: Final = f"DELETE FROM eagerstream_inbox WHERE run_id = ? AND number <= ? AND {_IF_WRITING}"

RELEASE: Final = f"""
    UPDATE eagerstream_runs SET owner = NULL, status = ?, summary = ?,
    ended_s = CASE WHEN ? IN ('running', 'waiting') THEN NULL ELSE COALESCE(ended_s, NOW_S) END
    WHERE {GUARD} AND next_seq = ?"""

RELEASE_UNCHANGED: Final = f"UPDATE eagerstream_runs SET owner = NULL WHERE {GUARD} AND next_seq = ?"

PROGRESS: Final = "SELECT fence, next_seq FROM eagerstream_runs WHERE run_id = ?"

SIZES: Final = f"""
    SELECT COALESCE((SELECT SUM(LENGTH(content) - {SEALED_BYTES}) FROM eagerstream_entries WHERE run_id = ?), 0),
    COALESCE((SELECT SUM(LENGTH(content)) FROM eagerstream_inbox WHERE run_id = ?), 0)"""
"""The bytes of the entries, without what encryption adds, and of the messages."""

ENTRIES: Final = """
    SELECT eagerstream_runs.entries_seal, eagerstream_entries.seq, eagerstream_entries.turn, eagerstream_entries.content
    FROM eagerstream_runs LEFT JOIN eagerstream_entries ON eagerstream_entries.run_id = eagerstream_runs.run_id
    WHERE eagerstream_runs.run_id = ? ORDER BY eagerstream_entries.seq"""
"""One statement, so that the seal and the entries are of the same moment."""

# --- messages ---------------------------------------------------------------------------------------------------------

ADD_MESSAGE: Final = """
    INSERT INTO eagerstream_inbox (run_id, number, token, content) SELECT ?, ?, ?, ?
    WHERE EXISTS (SELECT 1 FROM eagerstream_runs WHERE run_id = ? AND next_message = ? AND inbox_seal = ?)
    AND (SELECT COUNT(*) FROM eagerstream_inbox WHERE run_id = ?) < ?
    AND (SELECT COALESCE(SUM(LENGTH(content)), 0) FROM eagerstream_inbox WHERE run_id = ?) <= ?
    ON CONFLICT DO NOTHING"""

COUNT_MESSAGE: Final = """
    UPDATE eagerstream_runs SET next_message = next_message + 1, inbox_seal = ? WHERE run_id = ? AND next_message = ?
    AND EXISTS (SELECT 1 FROM eagerstream_inbox WHERE run_id = ? AND number = ? AND token = ?)"""

MESSAGE_NAME: Final = "SELECT token FROM eagerstream_inbox WHERE run_id = ? AND number = ?"

INBOX: Final = """
    SELECT next_message, inbox_seal, (SELECT COUNT(*) FROM eagerstream_inbox WHERE run_id = ?) FROM eagerstream_runs
    WHERE run_id = ?"""

MESSAGES: Final = """
    SELECT eagerstream_runs.entries_seal, eagerstream_runs.inbox_seal, eagerstream_inbox.number,
    eagerstream_inbox.token, eagerstream_inbox.content FROM eagerstream_runs LEFT JOIN eagerstream_inbox
    ON eagerstream_inbox.run_id = eagerstream_runs.run_id AND eagerstream_inbox.number > ?
    WHERE eagerstream_runs.run_id = ? ORDER BY eagerstream_inbox.number"""

# --- the rest ---------------------------------------------------------------------------------------------------------

DELETE: Final = (
    f"UPDATE eagerstream_journal SET last_fence = ? WHERE id = 1 AND last_fence < ? AND {_IF_OWNED}",
    f"DELETE FROM eagerstream_entries WHERE run_id = ? AND {_IF_OWNED}",
    f"DELETE FROM eagerstream_inbox WHERE run_id = ? AND {_IF_OWNED}",
    f"DELETE FROM eagerstream_runs WHERE {GUARD}",
)

_SUMMARIES: Final = """
    SELECT run_id, status, summary, fence, beat, owner IS NULL, lease_s, NOW_S - changed_s, NOW_S - created_s,
    size_bytes, (SELECT COUNT(*) FROM eagerstream_inbox WHERE eagerstream_inbox.run_id = eagerstream_runs.run_id)
    FROM eagerstream_runs"""

SUMMARY: Final = f"{_SUMMARIES} WHERE run_id = ?"

DUE: Final = f"""{_SUMMARIES} WHERE (owner IS NULL AND (status = 'running' OR EXISTS (SELECT 1 FROM eagerstream_inbox
    WHERE eagerstream_inbox.run_id = eagerstream_runs.run_id))) OR (owner IS NOT NULL AND changed_s <= NOW_S - lease_s)
    ORDER BY changed_s, run_id LIMIT ?"""
"""As `RunSummary.is_due`."""


def list_runs(statuses: int) -> str:
    """Return the query for summaries, with parameters for so many statuses, and for the maximum number of runs."""
    where = f"WHERE status IN ({', '.join('?' * statuses)})" if statuses else ""
    return f"{_SUMMARIES} {where} ORDER BY changed_s DESC, run_id LIMIT ?"


ENDED: Final = """
    SELECT run_id, changed_s FROM eagerstream_runs WHERE owner IS NULL AND ended_s <= NOW_S - ?
    ORDER BY ended_s LIMIT 1000"""
