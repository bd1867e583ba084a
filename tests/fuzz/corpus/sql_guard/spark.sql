SELECT * FROM parquet.`/etc/x`
SELECT * FROM csv.`/etc/passwd`
SELECT * FROM text.`/etc/passwd`
SELECT * FROM text.passwd
SELECT * FROM binaryFile.`/etc`
SELECT * FROM delta.`s3://x/y`
SELECT * FROM org.apache.spark.sql.parquet.`/x`
SELECT * FROM `/etc/passwd`
SELECT * FROM json.`hdfs://x/*.json` AS t
SELECT reflect('java.lang.Runtime', 'getRuntime')
SELECT java_method('java.lang.System', 'exit', 1)
SELECT input_file_name()
SELECT * FROM read_files('/etc')
SELECT TRANSFORM (a) USING 'sh' AS (b) FROM t
SELECT raise_error('x')
SELECT /*+ BROADCAST(t) */ 1 FROM t
