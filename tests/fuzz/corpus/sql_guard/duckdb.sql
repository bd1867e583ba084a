SUMMARIZE '/etc/*.csv'
SELECT min FROM (SUMMARIZE '/etc/*.csv')
SELECT min FROM (SUMMARIZE TABLE '/etc/users.csv')
SELECT * FROM (SUMMARIZE "/etc/users.csv")
SELECT min FROM (SUMMARIZE FROM read_text('/etc/passwd'))
SELECT min FROM (SUMMARIZE 'http://127.0.0.1:9/x.csv')
WITH x AS (SUMMARIZE '/etc/users.csv') SELECT * FROM x
SELECT * FROM (DESCRIBE '/etc/users.csv')
SELECT * FROM (SHOW ALL TABLES)
SELECT * FROM '/etc/users.csv'
SELECT * FROM 'users.parquet'
SELECT * FROM "users.csv"
SELECT * FROM "users".csv
SELECT * FROM "s3://bucket/x.parquet"
SELECT * FROM 'https://host/x.parquet' AS t
FROM '/etc/users.csv' SELECT *
FROM read_text('/etc/passwd')
FROM read_blob('/etc/passwd')
FROM read_csv_auto('/etc/passwd')
FROM read_json_objects('/etc/*.json')
FROM parquet_metadata('/etc/x.parquet')
FROM sniff_csv('/etc/passwd')
FROM glob('/*')
SELECT * FROM GLOB('/*')
SELECT * FROM "read_text"('/etc/passwd')
SELECT * FROM system.main.read_text('/etc/passwd')
SELECT * FROM t, LATERAL read_text(t.a)
SELECT (SELECT content FROM read_text('/etc/passwd'))
SELECT 'x'.read_text()
SELECT ('/etc/passwd').read_text()
SELECT a.getenv() FROM t
SELECT getenv('HOME')
SELECT getvariable('x')
SELECT current_setting('secret_directory')
SELECT nextval('s')
SELECT setseed(0.5)
SELECT sleep_ms(9000)
SELECT pg_sleep(9)
SELECT write_log('x')
SELECT error('x')
FROM query('DELETE FROM t')
FROM query_table('/etc/users.csv')
FROM json_execute_serialized_sql('{}')
FROM duckdb_settings()
FROM duckdb_secrets()
FROM duckdb_logs()
FROM pragma_database_size()
FROM which_secret('s3://x', 's3')
FROM checkpoint()
FROM enable_logging()
FROM sqlite_scan('/etc/x.db', 't')
FROM postgres_scan('host=x', 'public', 't')
FROM arrow_scan(1, 2, 3)
FROM pandas_scan(1)
FROM python_map_function(1)
FROM histogram('t', 'a')
INSTALL httpfs
LOAD httpfs
ATTACH '/etc/x.db'
PRAGMA version
CALL pragma_version()
SET enable_external_access = true
COPY t TO '/tmp/x.csv'
EXPORT DATABASE '/tmp/x'
SELECT * INTO x FROM t
SELECT 1; DELETE FROM t
SELECT $x
SELECT ?
SELECT * FROM users.shp
SELECT * FROM users.gpkg
SELECT * FROM users.FGB
