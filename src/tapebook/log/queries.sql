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
-- Every stream there is, found by stepping through the key: the cost does not grow with the number of events.
WITH RECURSIVE owners (owner) AS (
    SELECT MIN(owner) FROM log_events
    UNION ALL
    SELECT (SELECT MIN(e.owner) FROM log_events e WHERE e.owner > owners.owner) FROM owners
    WHERE owners.owner IS NOT NULL
), streams (owner, deployment) AS (
    SELECT o.owner, (SELECT MIN(e.deployment) FROM log_events e WHERE e.owner = o.owner) FROM owners o
    WHERE o.owner IS NOT NULL
    UNION ALL
    SELECT s.owner, (SELECT MIN(e.deployment) FROM log_events e WHERE e.owner = s.owner AND e.deployment > s.deployment)
    FROM streams s WHERE s.deployment IS NOT NULL
)
SELECT owner, deployment FROM streams WHERE deployment IS NOT NULL ORDER BY owner, deployment;
