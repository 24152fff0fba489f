-- name: head
-- The newest commit.
SELECT seq, known_at FROM tape_commits ORDER BY seq DESC LIMIT 1;

-- name: first_commit
-- The oldest commit.
SELECT seq, known_at FROM tape_commits ORDER BY seq LIMIT 1;

-- name: commit
-- Remembers a commit.
INSERT INTO tape_commits (seq, known_at, rows_written, known_basis, checksum)
VALUES (:seq, :known_at, :rows_written, :known_basis, :checksum);

-- name: commits_after
-- The next commits after one, and when they were known.
SELECT seq, known_at FROM tape_commits WHERE seq > :after_seq ORDER BY seq LIMIT :most;

-- name: forget_commits
-- Forgets the commits of a stretch; those of imported history stay, for retention asks for them.
DELETE FROM tape_commits WHERE seq > :after_seq AND seq <= :last_seq AND known_basis = 'observed';

-- name: assumed_commits
-- The commits of imported history.
SELECT seq FROM tape_commits WHERE known_basis = 'assumed';

-- name: symbols
-- Every symbol with its number and its kind.
SELECT symbol, symbol_id, kind FROM tape_symbols ORDER BY symbol_id;

-- name: add_symbol
-- Gives a symbol its number, once and for ever, and its kind.
INSERT INTO tape_symbols (symbol_id, symbol, kind) VALUES (:symbol_id, :symbol, :kind);

-- name: set_kind
-- A source says of which kind a symbol is that was stored as another.
UPDATE tape_symbols SET kind = :kind WHERE symbol_id = :symbol_id;

-- name: mark_hour
-- Notes that the minutes of an hour have changed; of an hour that runs, only the first commit does.
INSERT INTO tape_unrolled_hours (symbol_id, hour_ts, seq) VALUES (:symbol_id, :hour_ts, :seq)
ON CONFLICT (symbol_id, hour_ts) DO UPDATE SET seq = excluded.seq;

-- name: marked_hours
-- The hours whose minutes have changed.
SELECT symbol_id, hour_ts FROM tape_unrolled_hours;

-- name: hours_written
-- The hours of which a commit wrote a minute.
SELECT DISTINCT symbol_id, bucket_ts - bucket_ts % 3600000 FROM hyperliquid_candles
WHERE granularity_sec = 60 AND chunk >= :first_chunk AND chunk <= :last_chunk AND seq = :seq;

-- name: unrolled_hours
-- The next hours before a moment whose minutes have changed, by symbol.
SELECT symbol, hour_ts, seq FROM tape_unrolled_hours
JOIN tape_symbols ON tape_symbols.symbol_id = tape_unrolled_hours.symbol_id
WHERE hour_ts < :before ORDER BY symbol, hour_ts LIMIT :most;

-- name: unmark_hour
-- The bar of an hour was made of its minutes up to a commit.
DELETE FROM tape_unrolled_hours WHERE symbol_id = :symbol_id AND hour_ts = :hour_ts AND seq <= :seq;

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

-- name: gap
-- What is known of a gap by now.
SELECT to_ts, reason, found_at, filled_at FROM tape_gaps
WHERE source = :source AND channel = :channel AND subject = :subject AND from_ts = :from_ts ORDER BY seq DESC LIMIT 1;

-- name: add_gap
-- Adds a version of a gap; what is said of it twice in one commit is one version.
INSERT INTO tape_gaps (source, channel, subject, from_ts, seq, known_at, to_ts, reason, found_at, filled_at)
VALUES (:source, :channel, :subject, :from_ts, :seq, :known_at, :to_ts, :reason, :found_at, :filled_at)
ON CONFLICT (source, channel, subject, from_ts, seq) DO UPDATE SET
    to_ts = excluded.to_ts, found_at = excluded.found_at, filled_at = excluded.filled_at;

-- name: delisting
-- What was known last, at a moment and in a commit, of whether a perp is listed.
SELECT known_at, settlement_e8 FROM tape_delistings
WHERE symbol = :symbol AND known_at <= :as_of AND seq <= :watermark ORDER BY known_at DESC, seq DESC LIMIT 1;

-- name: delistings
-- All that was known in a commit of which perps are listed, oldest first.
SELECT symbol, known_at, seq, settlement_e8 FROM tape_delistings WHERE seq <= :watermark ORDER BY known_at, seq;

-- name: add_delisting
-- A perp was delisted, or is listed again.
INSERT INTO tape_delistings (symbol, seq, known_at, bucket_ts, settlement_e8)
VALUES (:symbol, :seq, :known_at, :bucket_ts, :settlement_e8)
ON CONFLICT (symbol, seq) DO UPDATE SET settlement_e8 = excluded.settlement_e8;

-- name: archived
-- The archive objects that hold rows of a table's chunks which are no longer here.
SELECT chunk, archive_key FROM tape_archived
WHERE table_name = :table_name AND granularity_sec = :granularity_sec AND chunk >= :first_chunk AND chunk <= :last_chunk
ORDER BY chunk, archive_key;

-- name: candle_lengths
-- The lengths there are bars of, finest first; each step finds the next one in the key.
WITH RECURSIVE here (length) AS (
    SELECT MIN(granularity_sec) FROM hyperliquid_candles
    UNION ALL
    SELECT (SELECT MIN(granularity_sec) FROM hyperliquid_candles WHERE granularity_sec > here.length)
    FROM here WHERE here.length IS NOT NULL
), away (length) AS (
    SELECT MIN(granularity_sec) FROM tape_archived WHERE table_name = 'hyperliquid_candles'
    UNION ALL
    SELECT (SELECT MIN(granularity_sec) FROM tape_archived
        WHERE table_name = 'hyperliquid_candles' AND granularity_sec > away.length)
    FROM away WHERE away.length IS NOT NULL
)
SELECT length FROM here WHERE length IS NOT NULL UNION SELECT length FROM away WHERE length IS NOT NULL ORDER BY length;

-- name: add_archived
-- Remembers where the rows of a chunk went; what is known already gives nothing back.
INSERT INTO tape_archived (table_name, granularity_sec, chunk, archive_key, rows_moved)
VALUES (:table_name, :granularity_sec, :chunk, :archive_key, :rows_moved)
ON CONFLICT (table_name, granularity_sec, chunk, archive_key) DO NOTHING
RETURNING table_name, granularity_sec, chunk, archive_key, rows_moved;

-- name: archived_first
-- The oldest archived chunk of a table.
SELECT MIN(chunk) FROM tape_archived WHERE table_name = :table_name AND granularity_sec = :granularity_sec;

-- name: gaps
-- Each gap as it was known at a moment, oldest first; of those a commit after a number spoke of.
SELECT source, channel, subject, from_ts, to_ts, reason, found_at, filled_at FROM tape_gaps
WHERE known_at <= :as_of AND seq > :after AND NOT EXISTS (
    SELECT 1 FROM tape_gaps later
    WHERE later.source = tape_gaps.source AND later.channel = tape_gaps.channel AND later.subject = tape_gaps.subject
        AND later.from_ts = tape_gaps.from_ts AND later.seq > tape_gaps.seq AND later.known_at <= :as_of)
ORDER BY from_ts, channel, subject LIMIT :most;

-- name: channel_gaps
-- Each gap of a channel that ends after a moment as it was known at another, oldest first.
SELECT source, channel, subject, from_ts, to_ts, reason, found_at, filled_at FROM tape_gaps
WHERE channel = :channel AND to_ts > :since AND known_at <= :as_of AND NOT EXISTS (
    SELECT 1 FROM tape_gaps later
    WHERE later.source = tape_gaps.source AND later.channel = tape_gaps.channel AND later.subject = tape_gaps.subject
        AND later.from_ts = tape_gaps.from_ts AND later.seq > tape_gaps.seq AND later.known_at <= :as_of)
ORDER BY from_ts, subject;

-- name: open_gaps_within
-- The open gaps of a subject that touch a range.
SELECT from_ts, to_ts, reason, found_at FROM tape_gaps
WHERE source = :source AND channel = :channel AND subject = :subject AND from_ts < :to_ts AND to_ts > :from_ts
    AND filled_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM tape_gaps later
    WHERE later.source = tape_gaps.source AND later.channel = tape_gaps.channel AND later.subject = tape_gaps.subject
        AND later.from_ts = tape_gaps.from_ts AND later.seq > tape_gaps.seq)
ORDER BY from_ts;

-- name: newest_gap
-- The newest commit that said something of a gap.
SELECT MAX(seq) FROM tape_gaps;

-- name: gap_count
-- How many gaps are open.
SELECT COUNT(*) FROM tape_gaps
WHERE filled_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM tape_gaps later
    WHERE later.source = tape_gaps.source AND later.channel = tape_gaps.channel AND later.subject = tape_gaps.subject
        AND later.from_ts = tape_gaps.from_ts AND later.seq > tape_gaps.seq);

-- name: filled_gap_count
-- How many gaps are filled.
SELECT COUNT(*) FROM tape_gaps
WHERE filled_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM tape_gaps later
    WHERE later.source = tape_gaps.source AND later.channel = tape_gaps.channel AND later.subject = tape_gaps.subject
        AND later.from_ts = tape_gaps.from_ts AND later.seq > tape_gaps.seq);

-- name: add_recording
-- Remembers where recorded payloads lie; what is known already gives nothing back.
INSERT INTO tape_recordings (from_ts, archive_key, to_ts, payloads) VALUES (:from_ts, :archive_key, :to_ts, :payloads)
ON CONFLICT (from_ts, archive_key) DO NOTHING
RETURNING from_ts, archive_key, to_ts, payloads;

-- name: recordings
-- The objects with payloads of a range, oldest first.
SELECT archive_key FROM tape_recordings WHERE to_ts >= :since AND from_ts < :until ORDER BY from_ts, to_ts, archive_key;

-- name: recorded_range
-- From when to when payloads were recorded.
SELECT MIN(from_ts), MAX(to_ts) FROM tape_recordings;

-- name: newest_recording
-- When the newest recorded payload was received.
SELECT MAX(to_ts) FROM tape_recordings;

-- name: note_problem
-- Counts what went wrong with a subject, and keeps what was said last.
INSERT INTO tape_problems (source, kind, subject, said, times, first_at, last_at)
VALUES (:source, :kind, :subject, :said, 1, :at, :at)
ON CONFLICT (source, kind, subject) DO UPDATE SET
    said = excluded.said, times = tape_problems.times + 1, last_at = excluded.last_at;

-- name: forget_problems
-- Keeps the newest ones.
DELETE FROM tape_problems WHERE last_at < (
    SELECT MIN(last_at) FROM (SELECT last_at FROM tape_problems ORDER BY last_at DESC LIMIT :most) newest);

-- name: problems
-- What went wrong since a moment, newest first.
SELECT source, kind, subject, said, times, first_at, last_at FROM tape_problems
WHERE last_at >= :since ORDER BY last_at DESC, source, kind, subject;

-- name: quarantine
-- Keeps an observation that was refused; the same again says nothing.
INSERT INTO tape_quarantine (symbol, channel, at, seq, known_at, price_e8, claimed_since, why)
VALUES (:symbol, :channel, :at, :seq, :known_at, :price_e8, :claimed_since, :why)
ON CONFLICT (symbol, channel, at) DO NOTHING;

-- name: forget_quarantined
-- Forgets what was refused long ago.
DELETE FROM tape_quarantine WHERE known_at < :before;

-- name: newest_claim
-- The observations of the newest claim about a symbol's price that began by a moment, in their order.
SELECT claimed_since, channel, price_e8, at FROM tape_quarantine
WHERE symbol = :symbol AND at <= :as_of AND claimed_since = (
    SELECT newest.claimed_since FROM tape_quarantine newest
    WHERE newest.symbol = :symbol AND newest.claimed_since > 0 AND newest.at <= :as_of
    ORDER BY newest.at DESC, newest.channel LIMIT 1)
ORDER BY at, channel;

-- name: quarantined
-- What was refused since a moment, newest first.
SELECT channel, symbol, at, price_e8, claimed_since, why FROM tape_quarantine
WHERE known_at >= :since ORDER BY seq DESC, at DESC, symbol, channel LIMIT :most;

-- name: add_set_back
-- Remembers that the clock has gone back.
INSERT INTO tape_set_backs (seq, known_before, known_at) VALUES (:seq, :known_before, :known_at)
ON CONFLICT (seq) DO NOTHING;

-- name: set_backs
-- Where the clock was found to have gone back, from what to what.
SELECT seq, known_before, known_at FROM tape_set_backs ORDER BY seq;

-- name: set_channels_back
-- Channels that are ahead of the clock have come as far as the clock.
UPDATE tape_channels SET
    newest_known_at = CASE WHEN newest_known_at > :known_at THEN :known_at ELSE newest_known_at END,
    newest_bucket_ts = CASE WHEN newest_bucket_ts > :known_at THEN :known_at ELSE newest_bucket_ts END;

-- name: progress
-- How far a source has come, part by part.
SELECT part, state_json FROM tape_source_progress WHERE source = :source ORDER BY part;

-- name: note_progress
-- Keeps one part of it; what was said of the part before is replaced.
INSERT INTO tape_source_progress (source, part, state_json) VALUES (:source, :part, :state_json)
ON CONFLICT (source, part) DO UPDATE SET state_json = excluded.state_json;

-- name: forget_progress
-- Forgets it: the source has delivered. Part 0 is no part of a task.
DELETE FROM tape_source_progress WHERE source = :source AND part > 0;
