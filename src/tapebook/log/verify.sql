-- name: tables
-- The tables of the scratch database.
SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name;

-- name: columns
-- The columns of a table of the scratch database, and their places in its key.
SELECT name, pk FROM pragma_table_info(:table_name);
