EXEC xp_cmdshell 'dir'
SELECT * FROM OPENROWSET(BULK 'C:\x', SINGLE_CLOB) AS x
SELECT * FROM OPENDATASOURCE('SQLNCLI', 'x').a.b.c
SELECT * FROM OPENQUERY(server, 'DELETE FROM t')
SELECT * FROM OPENXML(1, '/x')
SELECT * FROM server.db.dbo.t
SELECT * INTO n FROM t
SELECT NEXT VALUE FOR s
SELECT dbo.f(1)
SELECT master.dbo.xp_cmdshell('dir')
SELECT x.query('declare namespace a="b"; .') FROM t
SELECT x.modify('delete /a') FROM t
SELECT @@VERSION
SELECT @x
SELECT * FROM sys.fn_xe_file_target_read_file('C:\x', NULL, NULL, NULL)
SELECT * FROM fn_get_audit_file('C:\x', NULL, NULL)
SELECT 1 WAITFOR DELAY '0:0:9'
SELECT 1 EXEC('DROP TABLE t')
SELECT HOST_NAME()
WITH x AS (SELECT 1 AS a) DELETE FROM x
SELECT 1; DROP TABLE t
