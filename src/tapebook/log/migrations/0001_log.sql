CREATE TABLE log_events (
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
) WITHOUT ROWID;

CREATE INDEX log_events_known ON log_events (owner, deployment, known_at);
