-- Projections of the log. Rows are versions or facts: nothing here is updated.

-- What an opening run saw, kept until its trade ends.
CREATE TABLE experience_sights (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    run_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    symbol TEXT NOT NULL,
    seen_at BIGINT NOT NULL,
    sight_json TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, run_id, seq)
) WITHOUT ROWID;

-- One row per closed trade, at the event that taught it: nothing of it exists before that.
-- `packed` is its situation in hex, null when nobody saw one; `situations` counts those that are not null.
CREATE TABLE experience_outcomes (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    trade_id TEXT NOT NULL,
    exited_at BIGINT NOT NULL,
    result_ppm BIGINT NOT NULL,
    net_usd_e6 BIGINT NOT NULL,
    situations BIGINT NOT NULL,
    packed TEXT,
    outcome_json TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;

CREATE UNIQUE INDEX experience_outcomes_trade ON experience_outcomes (owner, deployment, trade_id);
CREATE INDEX experience_outcomes_time
    ON experience_outcomes (owner, deployment, exited_at, trade_id, seq, result_ppm, net_usd_e6);
CREATE INDEX experience_outcomes_situation ON experience_outcomes (owner, deployment, situations) WHERE packed IS NOT NULL;

-- Versions of the sums, one per event that changed them.
CREATE TABLE experience_records (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    wins BIGINT NOT NULL,
    total_ppm BIGINT NOT NULL,
    square_ppm2 BIGINT NOT NULL,
    usd_e6 BIGINT NOT NULL,
    PRIMARY KEY (owner, deployment, kind, name, seq)
) WITHOUT ROWID;

-- Full pages of situations, in the order of their numbers.
CREATE TABLE experience_situations (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    page BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    packed BLOB NOT NULL,
    PRIMARY KEY (owner, deployment, page)
) WITHOUT ROWID;

CREATE TABLE experience_fits (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    first_situation BIGINT NOT NULL,
    last_situation BIGINT NOT NULL,
    fit_json TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;

CREATE TABLE experience_snapshots (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    chunk TEXT NOT NULL,
    ended_at BIGINT NOT NULL,
    snapshot_json TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;
