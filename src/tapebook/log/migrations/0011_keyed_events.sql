-- Which events a write with a key has written, so that a second attempt knows what the first has done. No projection: a
-- key is the caller's affair, and is forgotten after some days.
CREATE TABLE log_keyed_events (
    owner TEXT NOT NULL,
    write_id TEXT NOT NULL,
    place BIGINT NOT NULL,
    attempt TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    body_sha256 TEXT NOT NULL,
    known_at BIGINT NOT NULL,
    PRIMARY KEY (owner, write_id, place)
) WITHOUT ROWID;

CREATE INDEX log_keyed_events_known ON log_keyed_events (owner, known_at);
