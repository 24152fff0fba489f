-- Events are longer than an index page of SQLite holds in place: in a table with a rowid they need no pages of their own.
CREATE TABLE log_rows (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    schema_version BIGINT NOT NULL,
    happened_at BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    body TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, seq)
);

INSERT INTO log_rows (owner, deployment, seq, kind, schema_version, happened_at, known_at, body, hash)
SELECT owner, deployment, seq, kind, schema_version, happened_at, known_at, body, hash FROM log_events
ORDER BY known_at, owner, deployment, seq;

DROP TABLE log_events;

ALTER TABLE log_rows RENAME TO log_events;

CREATE INDEX log_events_known ON log_events (owner, deployment, known_at, seq);
