-- Where an outcome comes from: empty for a trade of this account, else the name of the import that brought it.
ALTER TABLE experience_outcomes ADD COLUMN source TEXT NOT NULL DEFAULT '';

-- What was forgotten, and what of that was taken back: one row per event, in order.
CREATE TABLE experience_forgettings (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    forget_id TEXT NOT NULL,
    undone BIGINT NOT NULL,
    happened_at BIGINT NOT NULL,
    outcomes BIGINT NOT NULL,
    terms_json TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;

CREATE INDEX experience_forgettings_undone ON experience_forgettings (owner, deployment, forget_id, undone, seq);

-- The outcomes that a forgetting concerns.
CREATE TABLE experience_forgotten (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    trade_id TEXT NOT NULL,
    forget_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (owner, deployment, trade_id, forget_id)
) WITHOUT ROWID;
