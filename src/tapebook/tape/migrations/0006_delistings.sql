-- One row per change of what the exchange says of a perp it does not list any more: the price at which positions are
-- settled, or none when it lists the perp again. They are few, and none ever leaves for the archive.
CREATE TABLE tape_delistings (
    symbol TEXT NOT NULL,
    seq BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    bucket_ts BIGINT NOT NULL,
    settlement_e8 BIGINT,
    PRIMARY KEY (symbol, seq)
) WITHOUT ROWID;
