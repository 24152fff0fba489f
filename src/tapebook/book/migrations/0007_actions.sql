-- Actions by their place in the stream, no longer by the id of their run: ids are hashes, so that every row of a commit
-- was written to another page; now they follow one another.
CREATE TABLE action_rows (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    position BIGINT NOT NULL,
    run_id TEXT NOT NULL,
    action TEXT NOT NULL,
    symbol TEXT NOT NULL,
    side TEXT,
    notional_usd_e6 BIGINT NOT NULL,
    leverage BIGINT NOT NULL,
    order_type TEXT NOT NULL,
    limit_price_e8 BIGINT,
    confidence_e4 BIGINT NOT NULL,
    reason TEXT NOT NULL,
    cites_json TEXT NOT NULL,
    allowed BIGINT NOT NULL,
    rule TEXT,
    detail TEXT NOT NULL,
    flags_json TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (owner, deployment, seq, position)
) WITHOUT ROWID;

INSERT INTO action_rows (
    owner, deployment, seq, position, run_id, action, symbol, side, notional_usd_e6, leverage, order_type,
    limit_price_e8, confidence_e4, reason, cites_json, allowed, rule, detail, flags_json
)
SELECT
    owner, deployment, seq, position, run_id, action, symbol, side, notional_usd_e6, leverage, order_type,
    limit_price_e8, confidence_e4, reason, cites_json, allowed, rule, detail, flags_json
FROM decision_actions
ORDER BY owner, deployment, seq, position;

DROP TABLE decision_actions;

ALTER TABLE action_rows RENAME TO decision_actions;
