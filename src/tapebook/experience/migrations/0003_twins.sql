-- The twins of an ensemble's members as they were kept once a day: what a reader begins with.
CREATE TABLE experience_twins (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    kept_at BIGINT NOT NULL,
    twins_json TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;
