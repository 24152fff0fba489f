-- What the prediction markets of an asset say that end within days, an hour each.
CREATE TABLE polymarket_immediate_markets (
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    metrics_json TEXT NOT NULL,
    PRIMARY KEY (chunk, symbol_id, bucket_ts, revision)
) WITHOUT ROWID;

-- What those say that end later.
CREATE TABLE polymarket_later_markets (
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    metrics_json TEXT NOT NULL,
    PRIMARY KEY (chunk, symbol_id, bucket_ts, revision)
) WITHOUT ROWID;

-- How those ended that were closed in the last days.
CREATE TABLE polymarket_recently_closed_markets (
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    metrics_json TEXT NOT NULL,
    PRIMARY KEY (chunk, symbol_id, bucket_ts, revision)
) WITHOUT ROWID;

-- The durable registry of events, markets and their links to assets lies with that of the tape.
CREATE VIEW polymarket_events AS
SELECT subject AS event_id, record_json, known_at, seq FROM tape_registry WHERE register = 'polymarket_events';

CREATE VIEW polymarket_markets AS
SELECT subject AS market_id, record_json, known_at, seq FROM tape_registry WHERE register = 'polymarket_markets';

CREATE VIEW polymarket_market_asset_links AS
SELECT subject AS market_id, record_json, known_at, seq FROM tape_registry
WHERE register = 'polymarket_market_asset_links';
