-- Places in streams at which the clock was found to have gone back: from `first_seq` up to here events count as known later
-- than `known_at`, by a clock that was ahead.
CREATE TABLE log_set_backs (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    first_seq BIGINT NOT NULL,
    known_before BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;
