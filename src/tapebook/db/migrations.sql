-- name: recorded
-- The fingerprint of a migration that was applied.
SELECT sha256 FROM schema_migrations WHERE package = :package AND file = :file;

-- name: packages
-- The packages that brought migrations.
SELECT DISTINCT package FROM schema_migrations ORDER BY package;

-- name: record
-- Remembers a migration and returns its file; a second process gets nothing back.
INSERT INTO schema_migrations (package, file, sha256) VALUES (:package, :file, :sha256)
ON CONFLICT (package, file) DO NOTHING
RETURNING file;
