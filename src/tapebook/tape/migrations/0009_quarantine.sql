-- Observations that were not believed, and why: they are no facts, and nothing that is traded or valued reads them.
-- `claimed_since` is when the price that is not believed was claimed first, without a break; 0 for what cannot be a price.
CREATE TABLE tape_quarantine (
    symbol TEXT NOT NULL,
    channel TEXT NOT NULL,
    at BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    price_e8 BIGINT NOT NULL,
    claimed_since BIGINT NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (symbol, channel, at)
) WITHOUT ROWID;
