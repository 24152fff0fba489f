-- name: head
-- The newest commit.
SELECT seq, known_at FROM tape_commits ORDER BY seq DESC LIMIT 1;

-- name: first_commit
-- When the oldest commit was known.
SELECT known_at FROM tape_commits ORDER BY seq LIMIT 1;

-- name: commit
-- Remembers a commit.
INSERT INTO tape_commits (seq, known_at, rows_written, known_basis) VALUES (:seq, :known_at, :rows_written, :known_basis);

-- name: symbols
-- Every symbol with its number.
SELECT symbol, symbol_id FROM tape_symbols ORDER BY symbol_id;

-- name: add_symbol
-- Gives a symbol its number, once and for ever.
INSERT INTO tape_symbols (symbol_id, symbol) VALUES (:symbol_id, :symbol);

-- name: count_channel
-- Adds to what a channel has delivered.
INSERT INTO tape_channels (channel, rows_written, newest_bucket_ts, newest_known_at)
VALUES (:channel, :rows_written, :newest_bucket_ts, :newest_known_at)
ON CONFLICT (channel) DO UPDATE SET
    rows_written = tape_channels.rows_written + excluded.rows_written,
    newest_bucket_ts = CASE
        WHEN excluded.newest_bucket_ts > tape_channels.newest_bucket_ts THEN excluded.newest_bucket_ts
        ELSE tape_channels.newest_bucket_ts END,
    newest_known_at = CASE
        WHEN excluded.newest_known_at > tape_channels.newest_known_at THEN excluded.newest_known_at
        ELSE tape_channels.newest_known_at END;

-- name: channels
-- What each channel has delivered.
SELECT channel, rows_written, newest_bucket_ts, newest_known_at FROM tape_channels ORDER BY channel;

-- name: add_gap
-- Records a gap; the same gap again is left alone, one that grew gets its new end.
INSERT INTO tape_gaps (source, channel, subject, from_ts, to_ts, reason, found_at, found_seq)
VALUES (:source, :channel, :subject, :from_ts, :to_ts, :reason, :found_at, :found_seq)
ON CONFLICT (source, channel, subject, from_ts) DO UPDATE SET to_ts = excluded.to_ts
WHERE excluded.to_ts > tape_gaps.to_ts;

-- name: fill_gap
-- Marks a gap as filled.
UPDATE tape_gaps SET filled_at = :filled_at, filled_seq = :filled_seq
WHERE source = :source AND channel = :channel AND subject = :subject AND from_ts = :from_ts AND filled_at IS NULL;

-- name: archived
-- The archive objects that hold rows of a table's chunks which are no longer here.
SELECT chunk, archive_key FROM tape_archived
WHERE table_name = :table_name AND granularity_sec = :granularity_sec AND chunk >= :first_chunk AND chunk <= :last_chunk
ORDER BY chunk, archive_key;

-- name: add_archived
-- Remembers where the rows of a chunk went.
INSERT INTO tape_archived (table_name, granularity_sec, chunk, archive_key, rows_moved)
VALUES (:table_name, :granularity_sec, :chunk, :archive_key, :rows_moved)
ON CONFLICT (table_name, granularity_sec, chunk, archive_key) DO NOTHING;

-- name: archived_before
-- The newest archived chunk of a table before another one.
SELECT MAX(chunk) FROM tape_archived WHERE table_name = :table_name AND granularity_sec = :granularity_sec AND chunk < :chunk;

-- name: gaps
-- Gaps found by a moment, oldest first.
SELECT source, channel, subject, from_ts, to_ts, reason, found_at, filled_at FROM tape_gaps
WHERE found_at <= :as_of ORDER BY from_ts, channel, subject LIMIT :most;

-- name: gap_count
-- How many gaps are open.
SELECT COUNT(*) FROM tape_gaps WHERE filled_at IS NULL;
