-- name: append
-- Adds one event; a second writer of the same place changes no row.
INSERT INTO log_events (owner, deployment, seq, kind, schema_version, happened_at, known_at, body, packed, hash)
VALUES (:owner, :deployment, :seq, :kind, :schema_version, :happened_at, :known_at, :body, :packed, :hash)
ON CONFLICT (owner, deployment, seq) DO NOTHING;

-- name: newest_of_kinds
-- The newest event of each kind among the rows of a stream.
SELECT kind, MAX(seq) FROM log_events WHERE owner = :owner AND deployment = :deployment GROUP BY kind;

-- name: kinds_between
-- The newest event of each kind among the rows between two numbers, and how many there are.
SELECT kind, MAX(seq), COUNT(*) FROM log_events
WHERE owner = :owner AND deployment = :deployment AND seq > :after AND seq <= :until GROUP BY kind;

-- name: add_pack
-- Adds a pack of a stream that nobody else writes.
INSERT INTO log_packs (
    owner, deployment, first_seq, last_seq, events, first_known_at, known_at, hash, archive_key, content
) VALUES (
    :owner, :deployment, :first_seq, :last_seq, :events, :first_known_at, :known_at, :hash, :archive_key, :content
);

-- name: retire_pack
-- Adds a pack of events that leave and returns its place; a second one who does the same gets nothing back.
INSERT INTO log_packs (
    owner, deployment, first_seq, last_seq, events, first_known_at, known_at, hash, archive_key, content
) VALUES (
    :owner, :deployment, :first_seq, :last_seq, :events, :first_known_at, :known_at, :hash, :archive_key, :content
)
ON CONFLICT (owner, deployment, first_seq) DO NOTHING
RETURNING first_seq;

-- name: head
-- The newest event of a stream, which is a row or the last of a pack.
SELECT seq, hash, known_at FROM (
    SELECT seq, hash, known_at FROM (
        SELECT seq, hash, known_at FROM log_events
        WHERE owner = :owner AND deployment = :deployment ORDER BY seq DESC LIMIT 1
    ) newest_row
    UNION ALL
    SELECT seq, hash, known_at FROM (
        SELECT last_seq AS seq, hash, known_at FROM log_packs
        WHERE owner = :owner AND deployment = :deployment ORDER BY first_seq DESC LIMIT 1
    ) newest_pack
) ends
ORDER BY seq DESC LIMIT 1;

-- name: heads
-- The newest number of each stream of an owner, found by one step from stream to stream, among rows and in packs.
WITH RECURSIVE with_rows (deployment) AS (
    SELECT MIN(deployment) FROM log_events WHERE owner = :owner
    UNION ALL
    SELECT (SELECT MIN(e.deployment) FROM log_events e WHERE e.owner = :owner AND e.deployment > s.deployment)
    FROM with_rows s WHERE s.deployment IS NOT NULL
),
with_packs (deployment) AS (
    SELECT MIN(deployment) FROM log_packs WHERE owner = :owner
    UNION ALL
    SELECT (SELECT MIN(p.deployment) FROM log_packs p WHERE p.owner = :owner AND p.deployment > s.deployment)
    FROM with_packs s WHERE s.deployment IS NOT NULL
)
SELECT deployment, MAX(seq) FROM (
    SELECT s.deployment AS deployment, (
        SELECT MAX(e.seq) FROM log_events e WHERE e.owner = :owner AND e.deployment = s.deployment
    ) AS seq
    FROM with_rows s WHERE s.deployment IS NOT NULL
    UNION ALL
    SELECT s.deployment, (
        SELECT p.last_seq FROM log_packs p
        WHERE p.owner = :owner AND p.deployment = s.deployment ORDER BY p.first_seq DESC LIMIT 1
    )
    FROM with_packs s WHERE s.deployment IS NOT NULL
) ends
GROUP BY deployment;

-- name: newest_known
-- When the newest event of an owner's streams was known, leaving one of them out; found like the heads.
WITH RECURSIVE with_rows (deployment) AS (
    SELECT MIN(deployment) FROM log_events WHERE owner = :owner
    UNION ALL
    SELECT (SELECT MIN(e.deployment) FROM log_events e WHERE e.owner = :owner AND e.deployment > s.deployment)
    FROM with_rows s WHERE s.deployment IS NOT NULL
),
with_packs (deployment) AS (
    SELECT MIN(deployment) FROM log_packs WHERE owner = :owner
    UNION ALL
    SELECT (SELECT MIN(p.deployment) FROM log_packs p WHERE p.owner = :owner AND p.deployment > s.deployment)
    FROM with_packs s WHERE s.deployment IS NOT NULL
)
SELECT MAX(known_at) FROM (
    SELECT (
        SELECT e.known_at FROM log_events e
        WHERE e.owner = :owner AND e.deployment = s.deployment ORDER BY e.seq DESC LIMIT 1
    ) AS known_at
    FROM with_rows s WHERE s.deployment IS NOT NULL AND s.deployment <> :without
    UNION ALL
    SELECT (
        SELECT p.known_at FROM log_packs p
        WHERE p.owner = :owner AND p.deployment = s.deployment ORDER BY p.first_seq DESC LIMIT 1
    )
    FROM with_packs s WHERE s.deployment IS NOT NULL AND s.deployment <> :without
) ends;

-- name: events
-- A slice of a stream's rows in order.
SELECT seq, kind, schema_version, happened_at, known_at, body, packed, hash FROM log_events
WHERE owner = :owner AND deployment = :deployment AND seq > :after AND seq <= :until
ORDER BY seq LIMIT :page;

-- name: kinds_of_page
-- Which kinds a slice of a stream's rows has, how many of each and the newest: bodies are not read for it.
SELECT kind, COUNT(*), MAX(seq) FROM (
    SELECT seq, kind FROM log_events
    WHERE owner = :owner AND deployment = :deployment AND seq > :after AND seq <= :until
    ORDER BY seq LIMIT :page
) AS slice
GROUP BY kind;

-- name: packs
-- The packs with events of a slice of a stream, in order. No two overlap, so only one can have begun before it.
SELECT first_seq, last_seq, events, first_known_at, known_at, hash, archive_key FROM log_packs
WHERE owner = :owner AND deployment = :deployment AND first_seq <= :until AND last_seq > :after
    AND first_seq >= COALESCE((
        SELECT MAX(p.first_seq) FROM log_packs p
        WHERE p.owner = :owner AND p.deployment = :deployment AND p.first_seq <= :after + 1
    ), 0)
ORDER BY first_seq;

-- name: packed_until
-- Where the newest pack of a stream ends.
SELECT last_seq FROM log_packs WHERE owner = :owner AND deployment = :deployment ORDER BY first_seq DESC LIMIT 1;

-- name: content
-- What a pack holds, while it is in the book.
SELECT content FROM log_packs WHERE owner = :owner AND deployment = :deployment AND first_seq = :first_seq;

-- name: known_at
-- When an event that is a row was known.
SELECT known_at FROM log_events WHERE owner = :owner AND deployment = :deployment AND seq = :seq;

-- name: remove
-- An event that is in a pack now.
DELETE FROM log_events WHERE owner = :owner AND deployment = :deployment AND seq = :seq AND hash = :hash;

-- name: size
-- How many events a stream has, whatever their numbers: as rows, and in packs.
SELECT (
    SELECT COUNT(*) FROM log_events WHERE owner = :owner AND deployment = :deployment
) + (
    SELECT COALESCE(CAST(SUM(events) AS BIGINT), 0) FROM log_packs WHERE owner = :owner AND deployment = :deployment
);

-- name: first_stream
-- The first stream by name, of events that are rows and of those in packs.
SELECT owner, deployment FROM (
    SELECT * FROM (SELECT owner, deployment FROM log_events ORDER BY owner, deployment LIMIT 1) AS loose
    UNION
    SELECT * FROM (SELECT owner, deployment FROM log_packs ORDER BY owner, deployment LIMIT 1) AS packed
) AS found ORDER BY owner, deployment LIMIT 1;

-- name: next_stream
-- The first stream after another one, by name: four index lookups, however many events there are. Of a comparison of
-- both columns at once SQLite would step over every event of the stream before.
SELECT owner, deployment FROM (
    SELECT * FROM (
        SELECT owner, deployment FROM log_events
        WHERE owner = :owner AND deployment > :deployment ORDER BY owner, deployment LIMIT 1
    ) AS loose
    UNION
    SELECT * FROM (
        SELECT owner, deployment FROM log_events WHERE owner > :owner ORDER BY owner, deployment LIMIT 1
    ) AS loose_of_next_owner
    UNION
    SELECT * FROM (
        SELECT owner, deployment FROM log_packs
        WHERE owner = :owner AND deployment > :deployment ORDER BY owner, deployment LIMIT 1
    ) AS packed
    UNION
    SELECT * FROM (
        SELECT owner, deployment FROM log_packs WHERE owner > :owner ORDER BY owner, deployment LIMIT 1
    ) AS packed_of_next_owner
) AS found ORDER BY owner, deployment LIMIT 1;

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

-- name: restores
-- Where this book was restored from a backup.
SELECT until_anchor, to_anchor, restored_at FROM log_restores ORDER BY until_anchor, to_anchor;

-- name: note_restore
-- Notes that this book was restored.
INSERT INTO log_restores (until_anchor, to_anchor, restored_at) VALUES (:until_anchor, :to_anchor, :restored_at)
ON CONFLICT (until_anchor, to_anchor) DO NOTHING;

-- name: add_set_back
-- Remembers where a stream was set back.
INSERT INTO log_set_backs (owner, deployment, seq, first_seq, known_before, known_at)
VALUES (:owner, :deployment, :seq, :first_seq, :known_before, :known_at);

-- name: set_backs
-- Where a stream was set back, up to a sequence number.
SELECT seq, first_seq, known_before, known_at FROM log_set_backs
WHERE owner = :owner AND deployment = :deployment AND seq <= :until ORDER BY seq;

-- name: first_known_after
-- The first event of a stream that counts as known after a moment; of events in a pack, the first of the pack.
SELECT MIN(seq) FROM (
    SELECT seq FROM log_events WHERE owner = :owner AND deployment = :deployment AND known_at > :known_at
    UNION ALL
    SELECT first_seq FROM log_packs WHERE owner = :owner AND deployment = :deployment AND known_at > :known_at
) AS later;

-- name: keyed_events
-- What the attempts of a keyed write have written so far, in order.
SELECT attempt, deployment, kind, body_sha256 FROM log_keyed_events
WHERE owner = :owner AND write_id = :write_id ORDER BY place;

-- name: note_keyed_event
-- Notes an event of a keyed write; gives nothing back when another process makes the same write and was first.
INSERT INTO log_keyed_events (owner, write_id, place, attempt, deployment, seq, kind, body_sha256, known_at)
VALUES (:owner, :write_id, :place, :attempt, :deployment, :seq, :kind, :body_sha256, :known_at)
ON CONFLICT (owner, write_id, place) DO NOTHING
RETURNING place;

-- name: forget_keyed_events
-- Drops what is older than anybody repeats.
DELETE FROM log_keyed_events WHERE owner = :owner AND known_at < :before;
