-- name: records
-- The newest record of each subject of a register as it was known; a snapshot holds before its own day too.
SELECT subject, record_json, known_at, seq FROM tape_registry
WHERE register = :register AND seq <= :watermark AND (known_at <= :as_of OR seq = 0)
    AND NOT EXISTS (
        SELECT 1 FROM tape_set_backs backs
        WHERE backs.seq <= :watermark AND tape_registry.seq > 0 AND tape_registry.seq < backs.seq
            AND tape_registry.known_at > backs.known_at)
ORDER BY subject, CASE WHEN seq = 0 THEN 0 ELSE known_at END, seq;

-- name: record
-- The versions of one subject that were known, oldest first: a recording that is imported later may be older.
SELECT record_json, known_at, seq FROM tape_registry
WHERE register = :register AND subject = :subject AND seq <= :watermark AND (known_at <= :as_of OR seq = 0)
    AND NOT EXISTS (
        SELECT 1 FROM tape_set_backs backs
        WHERE backs.seq <= :watermark AND tape_registry.seq > 0 AND tape_registry.seq < backs.seq
            AND tape_registry.known_at > backs.known_at)
ORDER BY CASE WHEN seq = 0 THEN 0 ELSE known_at END, seq;

-- name: newest
-- What was known last of a subject at a moment.
SELECT record_json FROM tape_registry
WHERE register = :register AND subject = :subject AND (known_at <= :known_at OR seq = 0)
ORDER BY CASE WHEN seq = 0 THEN 0 ELSE known_at END DESC, seq DESC LIMIT 1;

-- name: add
-- A version of a subject; what is said twice in one commit is one version.
INSERT INTO tape_registry (register, subject, seq, known_at, record_json)
VALUES (:register, :subject, :seq, :known_at, :record_json)
ON CONFLICT (register, subject, seq) DO UPDATE SET record_json = excluded.record_json;

-- name: vintage
-- The day of the snapshot.
SELECT MAX(known_at) FROM tape_registry WHERE seq = 0;
