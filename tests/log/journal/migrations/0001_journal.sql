CREATE TABLE journal_entries (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    title TEXT NOT NULL,
    amount_e8 BIGINT NOT NULL,
    share REAL NOT NULL,
    bytes BLOB NOT NULL,
    known_at BIGINT NOT NULL,
    settled_seq BIGINT,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;

-- Without a key: the same row may stand here twice.
CREATE TABLE journal_tags (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    tag TEXT NOT NULL
);
