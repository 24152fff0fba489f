-- Projections of the log. A deployment's layers carry its name; those of all deployments together have an empty one.

-- Every key that was ever written, from when on: rows are added and never changed.
CREATE TABLE context_keys (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    layer TEXT NOT NULL,
    timeframe TEXT NOT NULL,
    key TEXT NOT NULL,
    origin TEXT NOT NULL,
    seq BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    PRIMARY KEY (owner, deployment, layer, timeframe, key, origin)
) WITHOUT ROWID;

CREATE TABLE context_versions (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    layer TEXT NOT NULL,
    timeframe TEXT NOT NULL,
    key TEXT NOT NULL,
    origin TEXT NOT NULL,
    seq BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, layer, timeframe, key, origin, seq)
) WITHOUT ROWID;

-- What is known now, one row per key and origin, for people who ask in SQL. No read of ours asks it: it changes.
CREATE VIEW contexts AS
SELECT
    k.owner, k.deployment, k.layer, k.timeframe, k.key, k.origin, v.value, k.known_at AS created_at,
    v.known_at AS updated_at, v.seq
FROM context_keys k
JOIN context_versions v ON v.owner = k.owner AND v.deployment = k.deployment AND v.layer = k.layer
    AND v.timeframe = k.timeframe AND v.key = k.key AND v.origin = k.origin
    AND v.seq = (
        SELECT MAX(n.seq) FROM context_versions n
        WHERE n.owner = k.owner AND n.deployment = k.deployment AND n.layer = k.layer
            AND n.timeframe = k.timeframe AND n.key = k.key AND n.origin = k.origin
    );

-- When anything of a scope was written: what was read of it holds until the next of these.
CREATE TABLE context_changes (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;

-- The sums of days, and those of months and years, which are merges of the same days. Only the next roll-up reads them,
-- at the head of the stream: it needs the newest alone.
CREATE TABLE context_folds (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    kind TEXT NOT NULL,
    timeframe TEXT NOT NULL,
    seq BIGINT NOT NULL,
    whole_json TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, kind, timeframe)
) WITHOUT ROWID;

-- Up to which event of which deployment closed trades are in the layers.
CREATE TABLE context_marks (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    source TEXT NOT NULL,
    until_seq BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (owner, deployment, source)
) WITHOUT ROWID;

-- A cleanup hides timeframes from later reads; versions stay, for earlier reads must replay.
CREATE TABLE context_cutoffs (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    layer TEXT NOT NULL,
    seq BIGINT NOT NULL,
    first_kept TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, layer, seq)
) WITHOUT ROWID;

-- Fixed; layers.py says the same.
CREATE TABLE context_metadata (
    layer TEXT NOT NULL,
    description TEXT NOT NULL,
    retention_days BIGINT,
    aggregation_source TEXT,
    PRIMARY KEY (layer)
) WITHOUT ROWID;

INSERT INTO context_metadata (layer, description, retention_days, aggregation_source) VALUES
    ('L1_LEGACY', 'All time: history, core principles, permanent warnings', NULL, 'L6_DAILY'),
    ('L2_ANNUAL', 'Years: returns, Sharpe ratio, what worked', 3650, 'L6_DAILY'),
    ('L3_QUARTERLY', 'Quarters: market phase, strategy pivots', 1095, 'L6_DAILY'),
    ('L4_MONTHLY', 'Months: rebalancing, exposure, drawdown and recovery', 730, 'L6_DAILY'),
    ('L5_WEEKLY', 'Weeks: selection, sectors, volatility regime', 365, 'L6_DAILY'),
    ('L6_DAILY', 'Days: closed trades by the day of their exit', 90, NULL),
    ('L7_REALTIME', 'Now: positions, prices, short volatility', 7, NULL);
