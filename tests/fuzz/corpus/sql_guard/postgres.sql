SELECT ('/etc/passwd'::text).pg_read_file
SELECT (v).pg_read_file FROM (SELECT '/etc/passwd'::text AS v) x
SELECT x.pg_read_file FROM unnest(ARRAY['/etc/passwd']) AS x
SELECT x.pg_sleep FROM generate_series(1, 9) x
SELECT x.pg_sleep FROM generate_series(1, 9) AS x(pg_sleep), LATERAL (SELECT 1 FROM generate_series(1, 9) x WHERE x.pg_sleep IS NULL) y
SELECT generate_series.pg_sleep FROM generate_series(1, 9)
SELECT pg_catalog.generate_series.pg_sleep FROM pg_catalog.generate_series(1, 9)
SELECT "X".pg_sleep FROM generate_series(1, 9) AS "X"(a)
SELECT x.pg_terminate_backend FROM unnest(ARRAY[1]) AS x("pg_terminate_bacKend")
SELECT x.pg_terminate_backend FROM unnest(ARRAY[1]) AS x(pg_terminate_bacKend)
SELECT x.pg_terminate_backend FROM unnest(ARRAY[1]) AS x("pg_terminate_bacKend")
SELECT x.pg_terminate_backend FROM unnest(ARRAY[1]) AS x("PG_TERMINATE_BACKEND")
SELECT x.pg_sleep FROM unnest(ARRAY[9]) WITH ORDINALITY AS x
SELECT x.pg_sleep FROM LATERAL unnest(ARRAY[9]) AS x
SELECT x.pg_sleep FROM t CROSS JOIN LATERAL generate_series(1, t.a) AS x
SELECT u.pg_read_file FROM current_user u
SELECT u.pg_read_file FROM session_user AS u
SELECT d.pg_sleep FROM current_date d
SELECT c.pg_read_file FROM current_catalog AS c
SELECT x.pg_sleep FROM ROWS FROM (generate_series(1, 9)) AS x
SELECT (2.0::float8).pg_sleep
SELECT (1).pg_terminate_backend
SELECT (12345).pg_cancel_backend
SELECT (42::bigint).pg_advisory_lock
SELECT (pid).pg_terminate_backend FROM pg_stat_activity
SELECT ((pid)).pg_terminate_backend FROM pg_stat_activity
SELECT (SELECT 9).pg_sleep
SELECT (CASE WHEN true THEN 9 END).pg_sleep
SELECT (ARRAY[9])[1].pg_sleep
SELECT ((ARRAY[9])[1]).pg_sleep
SELECT (t.a).pg_sleep FROM t
SELECT (ROW(9)).pg_sleep
SELECT ('s'::regclass).nextval
SELECT ('abc'::text).upper.pg_read_file
SELECT LATERAL .pg_sleep
SELECT LATERAL pg_sleep(9)
SELECT pg_sleep(9)
SELECT PG_SLEEP(9)
SELECT "pg_sleep"(9)
SELECT pg_catalog.pg_sleep(9)
SELECT "pg_catalog"."pg_sleep"(9)
SELECT postgres.pg_catalog.pg_sleep(9)
SELECT U&"pg\005fsleep"(9)
SELECT public.lower('x')
SELECT "Lower"('x')
SELECT pg_sleep /* sqlglot.anonymous */ (9)
SELECT * FROM pg_sleep(9)
SELECT * FROM pg_sleep(9) WITH ORDINALITY
SELECT 1 ORDER BY pg_sleep(9)
SELECT 1 LIMIT (SELECT 1 FROM pg_sleep(9))
SELECT sum(pg_sleep(9)::text::int) OVER (PARTITION BY pg_sleep(9))
SELECT count(*) FILTER (WHERE pg_sleep(9) IS NULL)
VALUES (pg_sleep(9))
TABLE t UNION SELECT pg_sleep(9)
SELECT CASE WHEN pg_sleep(9) IS NULL THEN 1 END
SELECT * FROM t TABLESAMPLE pg_sleep(9)
SELECT * FROM t TABLESAMPLE system (9) REPEATABLE (pg_sleep(9))
SELECT query_to_xml('DELETE FROM t', true, true, '')
SELECT database_to_xml(true, true, '')
SELECT table_to_xml('t', true, true, '')
SELECT cursor_to_xml('c', 1, true, true, '')
SELECT ts_stat('DELETE FROM t')
SELECT ts_rewrite('a'::tsquery, 'DELETE FROM t')
SELECT * FROM crosstab('SELECT 1, 1, pg_read_file(''/etc/passwd'')') AS x(a int, b text)
SELECT * FROM dblink('host=x', 'DELETE FROM t') AS d(x int)
SELECT dblink_exec('host=x', 'DELETE FROM t')
SELECT set_config('transaction_read_only', 'off', false)
SELECT current_setting('ssl_key_file')
SELECT nextval('s')
SELECT setval('s', 1)
SELECT lastval()
SELECT currval('s')
SELECT setseed(0.5)
SELECT pg_notify('c', 'x')
SELECT pg_advisory_lock(1)
SELECT pg_try_advisory_xact_lock(1)
SELECT lo_import('/etc/passwd')
SELECT lo_creat(-1)
SELECT lowrite(lo_open(1, 131072), 'x')
SELECT lo_get(1)
SELECT pg_read_binary_file('/etc/passwd')
SELECT pg_stat_file('/etc/passwd')
SELECT pg_ls_dir('/')
SELECT pg_reload_conf()
SELECT pg_rotate_logfile()
SELECT pg_stat_reset()
SELECT pg_stat_statements_reset()
SELECT pg_create_restore_point('x')
SELECT pg_logical_emit_message(true, 'a', 'b')
SELECT pg_copy_physical_replication_slot('a', 'b')
SELECT pg_export_snapshot()
SELECT pg_log_backend_memory_contexts(1)
SELECT txid_current()
SELECT pg_current_xact_id()
SELECT xmlparse(document '<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>')
SELECT xpath('/x', '<x/>')
SELECT xmltable('/x' PASSING '<x/>' COLUMNS a text)
SELECT 1 OPERATOR(pg_catalog.+) 2
SELECT 1 OPERATOR(public.+++) 2
SELECT a ORDER BY a USING OPERATOR(public.<<<)
SELECT 1 INTO x
SELECT * INTO TEMP x FROM t
SELECT * FROM t FOR UPDATE
SELECT * FROM t FOR NO KEY UPDATE SKIP LOCKED
SELECT * FROM t FOR KEY SHARE OF t NOWAIT
SELECT * FROM (SELECT * FROM t FOR UPDATE) x
SELECT 1; SELECT 2
SELECT 1;; DELETE FROM t
SELECT 1 \; DELETE FROM t
SELECT $1
SELECT :x
SELECT ?
SELECT @x
WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x
WITH x AS (MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE RETURNING *) SELECT * FROM x
WITH x AS NOT MATERIALIZED (UPDATE t SET a = 1 RETURNING *) TABLE x
SELECT * FROM [SELECT 1]
SELECT * FROM 'users'
SELECT * FROM "/etc/passwd"
SELECT * FROM t AS x(pg_sleep) WHERE y.pg_sleep IS NULL
COPY (SELECT 1) TO PROGRAM 'id'
EXPLAIN ANALYZE SELECT pg_sleep(9)
SHOW ssl_key_file
DECLARE c CURSOR FOR SELECT 1
FETCH ALL FROM c
SELECT btrim.pg_read_file FROM trim('/etc/passwd') WHERE NOT EXISTS (SELECT 1 FROM t AS btrim)
SELECT ltrim.pg_read_file FROM trim(LEADING ' ' FROM '/etc/passwd') WHERE NOT EXISTS (SELECT 1 FROM t AS ltrim)
SELECT unnest.pg_read_file FROM unnest(ARRAY['/etc/passwd']) WHERE NOT EXISTS (SELECT 1 FROM t AS unnest)
SELECT unnest.pg_read_file FROM t AS u, LATERAL unnest(ARRAY['/etc/passwd']) WHERE NOT EXISTS (SELECT 1 FROM t AS unnest)
SELECT unnest.pg_read_file FROM ROWS FROM (unnest(ARRAY['/etc/passwd'])) WHERE NOT EXISTS (SELECT 1 FROM t AS unnest)
SELECT lower.pg_read_file FROM ROWS FROM (lower('/etc/passwd'), unnest(ARRAY[1])) WHERE NOT EXISTS (SELECT 1 FROM t AS lower)
SELECT text.pg_read_file FROM CAST('/etc/passwd' AS text) WHERE NOT EXISTS (SELECT 1 FROM t AS text)
SELECT int4.pg_terminate_backend FROM CAST(1 AS int) WHERE NOT EXISTS (SELECT 1 FROM t AS int4)
SELECT int4.pg_terminate_backend FROM t AS u, LATERAL CAST(u.a AS int) WHERE NOT EXISTS (SELECT 1 FROM t AS int4)
SELECT float8.pg_sleep FROM CAST(9 AS float8) WHERE NOT EXISTS (SELECT 1 FROM t AS float8)
SELECT lower.pg_read_file FROM CAST(lower('/etc/passwd') AS text) WHERE NOT EXISTS (SELECT 1 FROM t AS lower)
SELECT substring.pg_read_file FROM substring('/etc/passwd' FROM 1) WHERE NOT EXISTS (SELECT 1 FROM t AS substring)
SELECT overlay.pg_read_file FROM overlay('/etc/passwd' PLACING '/' FROM 1) WHERE NOT EXISTS (SELECT 1 FROM t AS overlay)
SELECT lower.pg_read_file FROM lower('/etc/passwd') WHERE NOT EXISTS (SELECT 1 FROM t AS lower)
SELECT x.pg_read_file FROM lower('/etc/passwd') AS x WHERE NOT EXISTS (SELECT 1 FROM t AS x)
SELECT 1 FROM LATERAL current_date
SELECT INTERVAL '1' 'day'
