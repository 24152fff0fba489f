-- name: symbols
-- Every symbol with its number and kind.
SELECT symbol_id, symbol, kind FROM tape_symbols ORDER BY symbol_id;

-- name: set_backs
-- The commits at which the clock was found to have gone back.
SELECT seq, known_before, known_at FROM tape_set_backs ORDER BY seq;

-- name: delistings
-- What was said of perps that are not listed.
SELECT symbol, seq, known_at, bucket_ts, settlement_e8 FROM tape_delistings ORDER BY symbol, seq;

-- name: registry
-- The records of commits; the snapshot comes with the migrations.
SELECT register, subject, seq, known_at, record_json FROM tape_registry WHERE seq > 0 ORDER BY register, subject, seq;

-- name: add_commit
-- The newest commit of a tape that was lost, and its first.
INSERT INTO tape_commits (seq, known_at, rows_written, known_basis, checksum)
VALUES (:seq, :known_at, 0, 'observed', :checksum)
ON CONFLICT (seq) DO NOTHING;
