-- name: append
-- Adds one event and returns its place; a second writer of the same place gets nothing back.
INSERT INTO log_events (owner, deployment, seq, kind, schema_version, happened_at, known_at, body, hash)
VALUES (:owner, :deployment, :seq, :kind, :schema_version, :happened_at, :known_at, :body, :hash)
ON CONFLICT (owner, deployment, seq) DO NOTHING
RETURNING seq;

-- name: newest_of_kinds
-- The newest event of each kind in a stream.
SELECT kind, MAX(seq) FROM log_events WHERE owner = :owner AND deployment = :deployment GROUP BY kind;

-- name: add
-- Adds one event of a stream that nobody else writes.
INSERT INTO log_events (owner, deployment, seq, kind, schema_version, happened_at, known_at, body, hash)
VALUES (:owner, :deployment, :seq, :kind, :schema_version, :happened_at, :known_at, :body, :hash);

-- name: head
-- The newest event of a stream.
SELECT seq, hash, known_at FROM log_events
WHERE owner = :owner AND deployment = :deployment
ORDER BY seq DESC LIMIT 1;

-- name: events
-- A slice of a stream in order.
SELECT seq, kind, schema_version, happened_at, known_at, body, hash FROM log_events
WHERE owner = :owner AND deployment = :deployment AND seq > :after AND seq <= :until
ORDER BY seq LIMIT :page;

-- name: known_seq
-- The newest event of a stream that was known at a moment.
SELECT seq FROM log_events
WHERE owner = :owner AND deployment = :deployment AND known_at <= :as_of
ORDER BY known_at DESC, seq DESC LIMIT 1;

-- name: size
-- How many rows a stream has, whatever their numbers.
SELECT COUNT(*) FROM log_events WHERE owner = :owner AND deployment = :deployment;

-- name: streams
-- Every stream there is.
SELECT DISTINCT owner, deployment FROM log_events ORDER BY owner, deployment;

-- name: add_set_back
-- Remembers where a stream was set back.
INSERT INTO log_set_backs (owner, deployment, seq, first_seq, known_before, known_at)
VALUES (:owner, :deployment, :seq, :first_seq, :known_before, :known_at);

-- name: set_backs
-- Where a stream was set back, up to a sequence number.
SELECT seq, first_seq, known_before, known_at FROM log_set_backs
WHERE owner = :owner AND deployment = :deployment AND seq <= :until ORDER BY seq;

-- name: first_known_after
-- The first event of a stream that counts as known after a moment.
SELECT MIN(seq) FROM log_events WHERE owner = :owner AND deployment = :deployment AND known_at > :known_at;

-- name: known_seq_within
-- The newest event of a part of a stream that was known at a moment.
SELECT seq FROM log_events
WHERE owner = :owner AND deployment = :deployment AND known_at <= :as_of AND seq >= :first AND seq < :end
ORDER BY known_at DESC, seq DESC LIMIT 1;
