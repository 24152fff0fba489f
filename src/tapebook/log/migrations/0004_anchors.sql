-- The newest anchor that was written to the archive, and how far it and those before it reach in each stream. Not
-- projections: what is anchored follows from when processes ran.
CREATE TABLE log_anchors (
    number BIGINT NOT NULL,
    sha256 TEXT NOT NULL,
    tape_seq BIGINT NOT NULL,
    written_at BIGINT NOT NULL,
    PRIMARY KEY (number)
) WITHOUT ROWID;

CREATE TABLE log_anchored (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (owner, deployment)
) WITHOUT ROWID;
