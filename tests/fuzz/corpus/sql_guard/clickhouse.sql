SELECT * FROM url('http://host', 'CSV')
SELECT * FROM file('/etc/passwd')
SELECT file('/etc/passwd')
SELECT * FROM remote('h', 'db', 't')
SELECT * FROM mysql('h', 'db', 't', 'u', 'p')
SELECT * FROM executable('x', 'CSV', 'a Int8')
SELECT * FROM cluster('c', 'db', 't')
SELECT * FROM merge('db', '.*')
SELECT * FROM input('a Int8')
SELECT sleep(3)
SELECT sleepEachRow(3) FROM t
SELECT getSetting('x')
SELECT hostName()
SELECT dictGet('d', 'a', 1)
SELECT 1 INTO OUTFILE '/tmp/x'
SELECT 1 FORMAT CSV
SELECT 1 SETTINGS readonly = 0
