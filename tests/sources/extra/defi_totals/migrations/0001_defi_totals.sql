-- The value locked in protocols and chains, an hour each.
CREATE TABLE defi_totals_value_locked (
    chunk BIGINT NOT NULL,
    symbol_id BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    metrics_json TEXT NOT NULL,
    PRIMARY KEY (chunk, symbol_id, bucket_ts, revision)
) WITHOUT ROWID;
