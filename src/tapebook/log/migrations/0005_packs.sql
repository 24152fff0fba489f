-- Many events of a stream in one row, with the place, the time and the hash of the last. `content` has them, or, for old
-- ones that left the book, the archive does under `archive_key`. Rows of log_events stay as they are, and what a stream
-- has is both together.
CREATE TABLE log_packs (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    first_seq BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    events BIGINT NOT NULL,
    first_known_at BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    hash TEXT NOT NULL,
    archive_key TEXT,
    content BLOB,
    PRIMARY KEY (owner, deployment, first_seq)
);

-- A long body is packed within its row; then `body` is empty.
ALTER TABLE log_events ADD COLUMN packed BLOB;

-- Times grow with numbers, so what was known at a moment is found by halving.
DROP INDEX log_events_known;
