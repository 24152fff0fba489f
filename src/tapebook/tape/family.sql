-- A row that a clock which was ahead has stamped does not stand for whoever knows that the clock was set back: reads leave
-- it out by `tape_set_backs`.

-- name: add
-- Adds a row; a revision that exists is left alone.
INSERT INTO {table} ({columns}) VALUES ({params})
ON CONFLICT ({key}, revision) DO NOTHING;

-- name: stored
-- The newest revision of a bucket.
SELECT revision, {values}, known_at, seq FROM {table} WHERE {same_key} ORDER BY seq DESC, revision DESC LIMIT 1;

-- name: newest
-- A symbol's newest row of a chunk and the one before it, as of a moment and a watermark, and whether rows of these chunks
-- have left for the archive.
SELECT {fields}, EXISTS (
    SELECT 1 FROM tape_archived WHERE table_name = '{table}' AND tape_archived.granularity_sec = :granularity_sec
        AND tape_archived.chunk >= :chunk - 1 AND tape_archived.chunk <= :chunk) FROM {table}
WHERE {granularity}chunk IN (:chunk, :chunk - 1) AND symbol_id = :symbol_id
    AND bucket_ts <= :until AND seq <= :watermark AND known_at <= :as_of
    AND NOT EXISTS (
        SELECT 1 FROM tape_set_backs backs
        WHERE backs.seq <= :watermark AND {table}.seq < backs.seq AND {table}.known_at > backs.known_at)
ORDER BY {newest_first} LIMIT 1;

-- name: chunk_before
-- The newest chunk that is here before one, and the newest that has left for the archive before another one.
SELECT (
    SELECT MAX(chunk) FROM {table} WHERE {granularity}chunk < :chunk
), (
    SELECT MAX(chunk) FROM tape_archived
    WHERE table_name = '{table}' AND tape_archived.granularity_sec = :granularity_sec
        AND tape_archived.chunk < :away_chunk
);

-- name: between
-- A symbol's rows from one moment to another, every revision known, each with whether rows of these chunks have left for
-- the archive. The chunks there are get stepped through, so the cost follows the length of the stretch and not the number
-- of symbols, and rows come as they lie there, so that nothing is sorted. Mostly no clock has gone back, which is asked
-- once, not for every row. PostgreSQL looks at no other chunk only where the range of chunks is said once more.
WITH RECURSIVE chunks (number) AS (
    SELECT MIN(chunk) FROM {table} WHERE {granularity}chunk >= :first_chunk AND chunk <= :last_chunk
    UNION ALL
    SELECT (SELECT MIN(chunk) FROM {table} WHERE {granularity}chunk > chunks.number AND chunk <= :last_chunk)
    FROM chunks WHERE chunks.number IS NOT NULL
)
SELECT {fields}, EXISTS (
    SELECT 1 FROM tape_archived WHERE table_name = '{table}' AND tape_archived.granularity_sec = :granularity_sec
        AND tape_archived.chunk >= :first_chunk AND tape_archived.chunk <= :last_chunk) FROM {table}
WHERE {granularity}chunk IN (SELECT number FROM chunks) AND chunk >= :first_chunk AND chunk <= :last_chunk
    AND symbol_id = :symbol_id AND bucket_ts >= :since AND bucket_ts <= :until AND seq <= :watermark AND known_at <= :as_of
    AND (NOT EXISTS (SELECT 1 FROM tape_set_backs) OR NOT EXISTS (
        SELECT 1 FROM tape_set_backs backs
        WHERE backs.seq <= :watermark AND {table}.seq < backs.seq AND {table}.known_at > backs.known_at))
ORDER BY {oldest_first};

-- name: page
-- A symbol's rows from one moment to another, every revision, with when and in which commit each was known.
WITH RECURSIVE chunks (number) AS (
    SELECT MIN(chunk) FROM {table} WHERE {granularity}chunk >= :first_chunk AND chunk <= :last_chunk
    UNION ALL
    SELECT (SELECT MIN(chunk) FROM {table} WHERE {granularity}chunk > chunks.number AND chunk <= :last_chunk)
    FROM chunks WHERE chunks.number IS NOT NULL
)
SELECT {fields}, known_at, seq FROM chunks
JOIN {table} ON {granularity}chunk = chunks.number AND symbol_id = :symbol_id
WHERE bucket_ts >= :since AND bucket_ts <= :until AND seq <= :watermark
    AND NOT EXISTS (
        SELECT 1 FROM tape_set_backs backs
        WHERE backs.seq <= :watermark AND {table}.seq < backs.seq AND {table}.known_at > backs.known_at)
ORDER BY bucket_ts, seq, revision;

-- name: known
-- A symbol's rows from one moment to another, every revision that was known at a moment, with when it was.
WITH RECURSIVE chunks (number) AS (
    SELECT MIN(chunk) FROM {table} WHERE {granularity}chunk >= :first_chunk AND chunk <= :last_chunk
    UNION ALL
    SELECT (SELECT MIN(chunk) FROM {table} WHERE {granularity}chunk > chunks.number AND chunk <= :last_chunk)
    FROM chunks WHERE chunks.number IS NOT NULL
)
SELECT {fields}, known_at FROM chunks
JOIN {table} ON {granularity}chunk = chunks.number AND symbol_id = :symbol_id
WHERE bucket_ts >= :since AND bucket_ts <= :until AND seq <= :watermark AND known_at <= :as_of
    AND NOT EXISTS (
        SELECT 1 FROM tape_set_backs backs
        WHERE backs.seq <= :watermark AND {table}.seq < backs.seq AND {table}.known_at > backs.known_at)
ORDER BY bucket_ts, seq, revision;

-- name: span
-- The first and the last bucket of a symbol that are not in the archive.
SELECT MIN(bucket_ts), MAX(bucket_ts) FROM {table} WHERE {granularity}symbol_id = :symbol_id;

-- name: buckets
-- Every bucket of some chunks there is a row of, with its symbol.
SELECT bucket_ts, symbol_id FROM {table}
WHERE {granularity}chunk >= :first_chunk AND chunk <= :last_chunk AND seq <= :watermark AND known_at <= :as_of
    AND NOT EXISTS (
        SELECT 1 FROM tape_set_backs backs
        WHERE backs.seq <= :watermark AND {table}.seq < backs.seq AND {table}.known_at > backs.known_at)
ORDER BY bucket_ts, symbol_id;

-- name: observed_buckets
-- Every bucket of a range that was observed, with its symbol.
SELECT DISTINCT bucket_ts, symbol_id FROM {table}
WHERE {granularity}chunk >= :first_chunk AND chunk <= :last_chunk AND bucket_ts >= :since AND bucket_ts < :until
    AND seq NOT IN (SELECT seq FROM tape_commits WHERE known_basis = 'assumed')
    AND NOT EXISTS (
        SELECT 1 FROM tape_set_backs backs WHERE {table}.seq < backs.seq AND {table}.known_at > backs.known_at);

-- name: newest_by_symbol
-- The newest observed bucket of each symbol since a chunk.
SELECT symbol_id, MAX(bucket_ts) FROM {table}
WHERE {granularity}chunk >= :chunk AND seq NOT IN (SELECT seq FROM tape_commits WHERE known_basis = 'assumed')
    AND NOT EXISTS (
        SELECT 1 FROM tape_set_backs backs WHERE {table}.seq < backs.seq AND {table}.known_at > backs.known_at)
GROUP BY symbol_id;

-- name: next_chunk
-- The oldest chunk between two others.
SELECT MIN(chunk) FROM {table} WHERE {granularity}chunk > :after_chunk AND chunk < :before_chunk;

-- name: observed_row
-- Whether a chunk has a row that was observed.
SELECT 1 FROM {table}
WHERE {granularity}chunk = :chunk AND seq NOT IN (SELECT seq FROM tape_commits WHERE known_basis = 'assumed') LIMIT 1;

-- name: chunk_rows
-- The observed rows of a chunk, in the order of the insert; imported history stays.
SELECT {columns} FROM {table}
WHERE {granularity}chunk = :chunk AND seq NOT IN (SELECT seq FROM tape_commits WHERE known_basis = 'assumed')
ORDER BY symbol_id, bucket_ts, seq, revision;

-- name: drop_chunk
-- Deletes the observed rows of a chunk.
DELETE FROM {table}
WHERE {granularity}chunk = :chunk AND seq NOT IN (SELECT seq FROM tape_commits WHERE known_basis = 'assumed');

-- name: whole_chunk
-- Every row of a chunk, in the order of the insert.
SELECT {columns} FROM {table} WHERE {granularity}chunk = :chunk;

-- name: all_rows
-- Every row of the table, chunk by chunk.
SELECT {columns} FROM {table} ORDER BY {stored_key}, revision;

-- name: restated
-- What a commit has written, in order of the key.
SELECT {columns} FROM {table} WHERE seq = :seq ORDER BY {stored_key}, revision;

-- name: state_again
-- Says what has happened by a moment, and counts as known after it, once more as known at it: as the next revision.
INSERT INTO {table} ({columns})
SELECT {place_and_own}, revision + 1, :known_at, :seq FROM {table}
WHERE known_at > :known_at AND {ends_at} <= :known_at
    AND seq NOT IN (SELECT seq FROM tape_commits WHERE known_basis = 'assumed')
    AND NOT EXISTS (SELECT 1 FROM {table} later WHERE {later_revision} AND later.revision > {table}.revision);
