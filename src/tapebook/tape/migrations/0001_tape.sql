-- Market rows are append-only: a correction is a new revision, and each row says when it was known and in which commit.
--
-- Rows of a family lie in chunks of twenty buckets, and inside a chunk by symbol. A frame of all symbols then touches few
-- pages (as a key by time would), and a symbol's history is one short run per chunk (as a key by symbol would give).

CREATE TABLE tape_symbols (
    symbol_id BIGINT NOT NULL,
    symbol TEXT NOT NULL,
    PRIMARY KEY (symbol_id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX tape_symbols_name ON tape_symbols (symbol);

-- `known_basis` is 'observed', or 'assumed' for imported history: its rows carry the time they would have been known.
CREATE TABLE tape_commits (
    seq BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    rows_written BIGINT NOT NULL,
    known_basis TEXT NOT NULL,
    PRIMARY KEY (seq)
) WITHOUT ROWID;

CREATE TABLE tape_channels (
    channel TEXT NOT NULL,
    rows_written BIGINT NOT NULL,
    newest_bucket_ts BIGINT NOT NULL,
    newest_known_at BIGINT NOT NULL,
    PRIMARY KEY (channel)
) WITHOUT ROWID;

CREATE TABLE tape_gaps (
    source TEXT NOT NULL,
    channel TEXT NOT NULL,
    subject TEXT NOT NULL,
    from_ts BIGINT NOT NULL,
    to_ts BIGINT NOT NULL,
    reason TEXT NOT NULL,
    found_at BIGINT NOT NULL,
    found_seq BIGINT NOT NULL,
    filled_at BIGINT,
    filled_seq BIGINT,
    PRIMARY KEY (source, channel, subject, from_ts)
) WITHOUT ROWID;

-- Where the rows of a chunk went when they left; without a granularity of their own, tables use 0.
CREATE TABLE tape_archived (
    table_name TEXT NOT NULL,
    granularity_sec BIGINT NOT NULL,
    chunk BIGINT NOT NULL,
    archive_key TEXT NOT NULL,
    rows_moved BIGINT NOT NULL,
    PRIMARY KEY (table_name, granularity_sec, chunk, archive_key)
) WITHOUT ROWID;

CREATE TABLE hyperliquid_mid_prices (
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    price_e8 BIGINT NOT NULL,
    PRIMARY KEY (chunk, symbol_id, bucket_ts, revision)
) WITHOUT ROWID;

CREATE TABLE hyperliquid_candles (
    granularity_sec BIGINT NOT NULL,
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
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
    PRIMARY KEY (granularity_sec, chunk, symbol_id, bucket_ts, revision)
) WITHOUT ROWID;

CREATE TABLE hyperliquid_liquidity_profiles (
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
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
    PRIMARY KEY (chunk, symbol_id, bucket_ts, revision)
) WITHOUT ROWID;

CREATE TABLE hyperliquid_asset_contexts (
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    funding_e12 BIGINT NOT NULL,
    premium_e12 BIGINT NOT NULL,
    open_interest_base DOUBLE PRECISION NOT NULL,
    mark_e8 BIGINT NOT NULL,
    oracle_e8 BIGINT NOT NULL,
    PRIMARY KEY (chunk, symbol_id, bucket_ts, revision)
) WITHOUT ROWID;

CREATE TABLE hyperliquid_funding_rates (
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    rate_e12 BIGINT NOT NULL,
    premium_e12 BIGINT NOT NULL,
    PRIMARY KEY (chunk, symbol_id, bucket_ts, revision)
) WITHOUT ROWID;

CREATE TABLE hyperliquid_predicted_fundings (
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    venue TEXT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    rate_e12 BIGINT NOT NULL,
    interval_hours BIGINT,
    next_funding_at BIGINT NOT NULL,
    PRIMARY KEY (chunk, symbol_id, bucket_ts, venue, revision)
) WITHOUT ROWID;

CREATE TABLE hyperliquid_volatility_profiles (
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    metrics_json TEXT NOT NULL,
    PRIMARY KEY (chunk, symbol_id, bucket_ts, revision)
) WITHOUT ROWID;

CREATE TABLE hyperliquid_funding_pressure (
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    metrics_json TEXT NOT NULL,
    PRIMARY KEY (chunk, symbol_id, bucket_ts, revision)
) WITHOUT ROWID;

CREATE TABLE hyperliquid_positioning_pressure (
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    metrics_json TEXT NOT NULL,
    PRIMARY KEY (chunk, symbol_id, bucket_ts, revision)
) WITHOUT ROWID;
