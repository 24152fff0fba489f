-- name: seal
-- The checksum of a chunk or a table.
SELECT rows_sealed, digest, seq FROM tape_seals
WHERE table_name = :table_name AND granularity_sec = :granularity_sec AND chunk = :chunk;

-- name: put_seal
-- Replaces a checksum.
INSERT INTO tape_seals (table_name, granularity_sec, chunk, rows_sealed, digest, seq)
VALUES (:table_name, :granularity_sec, :chunk, :rows_sealed, :digest, :seq)
ON CONFLICT (table_name, granularity_sec, chunk) DO UPDATE SET
    rows_sealed = excluded.rows_sealed, digest = excluded.digest, seq = excluded.seq;

-- name: drop_seal
-- The chunk has left.
DELETE FROM tape_seals WHERE table_name = :table_name AND granularity_sec = :granularity_sec AND chunk = :chunk;

-- name: seals
-- Every checksum.
SELECT table_name, granularity_sec, chunk, rows_sealed, digest, seq FROM tape_seals
ORDER BY table_name, granularity_sec, chunk;

-- name: seals_since
-- The checksums that commits after one have changed.
SELECT table_name, granularity_sec, chunk, rows_sealed, digest, seq FROM tape_seals
WHERE seq > :after_seq AND chunk >= 0 ORDER BY table_name, granularity_sec, chunk;

-- name: newest_commit
-- The row of the newest commit.
SELECT seq, known_at, rows_written, known_basis, checksum FROM tape_commits ORDER BY seq DESC LIMIT 1;

-- name: commit_row
-- The row of a commit.
SELECT seq, known_at, rows_written, known_basis, checksum FROM tape_commits WHERE seq = :seq;

-- name: commit_rows
-- Every commit, in order.
SELECT seq, known_at, rows_written, known_basis, checksum FROM tape_commits ORDER BY seq;

-- name: tape_gaps
-- The versions of gaps, with their commit as the last column.
SELECT source, channel, subject, from_ts, known_at, to_ts, reason, found_at, filled_at, seq FROM tape_gaps
WHERE seq >= :since_seq AND seq <= :until_seq ORDER BY seq, source, channel, subject, from_ts;

-- name: tape_delistings
-- What was said of perps that are not listed, with its commit as the last column.
SELECT symbol, known_at, bucket_ts, settlement_e8, seq FROM tape_delistings
WHERE seq >= :since_seq AND seq <= :until_seq ORDER BY seq, symbol;

-- name: tape_registry
-- The versions of records, with their commit as the last column; the snapshot is part of no commit.
SELECT register, subject, known_at, record_json, seq FROM tape_registry
WHERE seq > 0 AND seq >= :since_seq AND seq <= :until_seq ORDER BY seq, register, subject;

-- name: tape_registry_seed
-- The snapshot of the registry.
SELECT register, subject, known_at, record_json, seq FROM tape_registry WHERE seq = 0 ORDER BY register, subject;

-- name: tape_archived
-- Where chunks went.
SELECT table_name, granularity_sec, chunk, archive_key, rows_moved FROM tape_archived
ORDER BY table_name, granularity_sec, chunk, archive_key;

-- name: tape_recordings
-- Where payloads lie.
SELECT from_ts, archive_key, to_ts, payloads FROM tape_recordings ORDER BY from_ts, archive_key;

-- name: tape_set_backs
-- Where the clock went back.
SELECT seq, known_before, known_at FROM tape_set_backs ORDER BY seq;

-- name: tape_quarantine
-- Observations that were refused.
SELECT symbol, channel, at, seq, known_at, price_e8, claimed_since, why FROM tape_quarantine
ORDER BY symbol, channel, at;

-- name: tape_symbols
-- The numbers of symbols, and of those that are no perps the kind: before there were kinds, the numbers alone were sealed.
SELECT symbol_id, CASE WHEN kind = 'perp' THEN symbol ELSE symbol || ' ' || kind END FROM tape_symbols
ORDER BY symbol_id;

-- name: tape_channels
-- What each channel has delivered.
SELECT channel, rows_written, newest_bucket_ts, newest_known_at FROM tape_channels ORDER BY channel;

-- name: tape_unrolled_hours
-- Hours to be rolled up.
SELECT symbol_id, hour_ts, seq FROM tape_unrolled_hours ORDER BY symbol_id, hour_ts;

-- name: tape_problems
-- What went wrong.
SELECT source, kind, subject, said, times, first_at, last_at FROM tape_problems ORDER BY source, kind, subject;

-- name: imports
-- How many commits of imported history there are.
SELECT COUNT(*) FROM tape_commits WHERE known_basis = 'assumed';

-- name: imported
-- The commits of imported history.
SELECT seq FROM tape_commits WHERE known_basis = 'assumed';
