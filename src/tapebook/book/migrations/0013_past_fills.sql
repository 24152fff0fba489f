-- What an account traded on spot markets before it was known here: apart from positions, trades and cash.
CREATE TABLE spot_fills (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    fill_id TEXT NOT NULL,
    market TEXT NOT NULL,
    happened_at BIGINT NOT NULL,
    signed_size_e8 BIGINT NOT NULL,
    price_e8 BIGINT NOT NULL,
    fee_e8 BIGINT NOT NULL,
    fee_token TEXT NOT NULL,
    direction TEXT NOT NULL,
    maker BIGINT NOT NULL,
    order_id TEXT,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;

CREATE UNIQUE INDEX spot_fills_id ON spot_fills (owner, deployment, fill_id);

-- A fee that was paid in a token; and whether a fill stands for others that are missing.
ALTER TABLE fills ADD COLUMN fee_token TEXT;
ALTER TABLE fills ADD COLUMN fee_e8 BIGINT;
ALTER TABLE fills ADD COLUMN bridge BIGINT NOT NULL DEFAULT 0;

-- What is not known of a trade: fills, funding, path; empty when all is.
ALTER TABLE trade_history ADD COLUMN lacks TEXT NOT NULL DEFAULT '';
