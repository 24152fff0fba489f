-- Market rows are append-only: a correction is a new revision, and each row says when it was known and in which commit.

CREATE TABLE tape_commits (
    seq BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    rows_written BIGINT NOT NULL,
    PRIMARY KEY (seq)
) WITHOUT ROWID;

CREATE INDEX tape_commits_known ON tape_commits (known_at);

CREATE TABLE hyperliquid_mid_prices (
    symbol TEXT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    price_e8 BIGINT NOT NULL,
    PRIMARY KEY (symbol, bucket_ts, revision)
) WITHOUT ROWID;

CREATE TABLE hyperliquid_candles (
    symbol TEXT NOT NULL,
    granularity_sec BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    open_e8 BIGINT NOT NULL,
    high_e8 BIGINT NOT NULL,
    low_e8 BIGINT NOT NULL,
    close_e8 BIGINT NOT NULL,
    volume_base DOUBLE PRECISION NOT NULL,
    volume_quote_usd DOUBLE PRECISION NOT NULL,
    sample_count BIGINT NOT NULL,
    PRIMARY KEY (symbol, granularity_sec, bucket_ts, revision)
) WITHOUT ROWID;

CREATE TABLE hyperliquid_liquidity_profiles (
    symbol TEXT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    mid_e8 BIGINT NOT NULL,
    spread_bps DOUBLE PRECISION NOT NULL,
    depth_usd_10bps DOUBLE PRECISION NOT NULL,
    depth_usd_50bps DOUBLE PRECISION NOT NULL,
    depth_usd_100bps DOUBLE PRECISION NOT NULL,
    imbalance DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (symbol, bucket_ts, revision)
) WITHOUT ROWID;

CREATE TABLE hyperliquid_asset_contexts (
    symbol TEXT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    funding_e12 BIGINT NOT NULL,
    premium_e12 BIGINT NOT NULL,
    open_interest_base DOUBLE PRECISION NOT NULL,
    mark_e8 BIGINT NOT NULL,
    oracle_e8 BIGINT NOT NULL,
    PRIMARY KEY (symbol, bucket_ts, revision)
) WITHOUT ROWID;

CREATE TABLE hyperliquid_funding_rates (
    symbol TEXT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    rate_e12 BIGINT NOT NULL,
    premium_e12 BIGINT NOT NULL,
    PRIMARY KEY (symbol, bucket_ts, revision)
) WITHOUT ROWID;
