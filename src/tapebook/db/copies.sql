-- name: columns
-- Every table of a file of SQLite that a migration made, and its columns in their order.
SELECT t.name, c.name FROM sqlite_master t JOIN pragma_table_info(t.name) c
WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\' AND t.name NOT LIKE '\_litestream\_%' ESCAPE '\'
ORDER BY t.name, c.cid;
