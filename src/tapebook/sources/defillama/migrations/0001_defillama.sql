-- Value locked and supply, by global, chain, protocol and stablecoin subjects, an hour each.
CREATE TABLE defillama_capital_base (
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    metrics_json TEXT NOT NULL,
    PRIMARY KEY (chunk, symbol_id, bucket_ts, revision)
) WITHOUT ROWID;

-- How these have changed in a day and a week.
CREATE TABLE defillama_capital_flows (
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    metrics_json TEXT NOT NULL,
    PRIMARY KEY (chunk, symbol_id, bucket_ts, revision)
) WITHOUT ROWID;

-- Volume, fees, revenue and open interest.
CREATE TABLE defillama_economic_throughput (
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    metrics_json TEXT NOT NULL,
    PRIMARY KEY (chunk, symbol_id, bucket_ts, revision)
) WITHOUT ROWID;
