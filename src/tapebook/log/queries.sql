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

-- name: first_stream
-- The first stream by name.
SELECT owner, deployment FROM log_events ORDER BY owner, deployment LIMIT 1;

-- name: next_stream
-- The first stream after another one, by name: an index lookup, however many events there are.
SELECT owner, deployment FROM log_events
WHERE (owner, deployment) > (:owner, :deployment) ORDER BY owner, deployment LIMIT 1;

-- name: hash_at
-- The hash of one event.
SELECT hash FROM log_events WHERE owner = :owner AND deployment = :deployment AND seq = :seq;

-- name: newest_anchor
-- The newest anchor the book knows of.
SELECT number, sha256, tape_seq, written_at FROM log_anchors ORDER BY number DESC LIMIT 1;

-- name: note_anchor
-- Notes an anchor and returns its number; a second writer of the same number gets nothing back.
INSERT INTO log_anchors (number, sha256, tape_seq, written_at) VALUES (:number, :sha256, :tape_seq, :written_at)
ON CONFLICT (number) DO NOTHING
RETURNING number;

-- name: drop_older_anchors
-- Each anchor names the one before, so the newest is enough.
DELETE FROM log_anchors WHERE number < :number;

-- name: anchored
-- How far each stream is anchored.
SELECT owner, deployment, seq FROM log_anchored ORDER BY owner, deployment;

-- name: note_anchored
-- A stream is anchored up to here.
INSERT INTO log_anchored (owner, deployment, seq) VALUES (:owner, :deployment, :seq)
ON CONFLICT (owner, deployment) DO UPDATE SET seq = excluded.seq;
