-- Orders of a dry run and what they would have cost: written down and marked, never sent, no part of cash.
ALTER TABLE orders ADD COLUMN dry BIGINT NOT NULL DEFAULT 0;
ALTER TABLE wallet_ledger ADD COLUMN dry BIGINT NOT NULL DEFAULT 0;

-- When the first and the last event that wrote a row became known. A run gets its second time only from an event that
-- ends it: most have none, and a backtest has many.
ALTER TABLE decision_runs ADD COLUMN created_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE decision_runs ADD COLUMN ended_at BIGINT;
ALTER TABLE orders ADD COLUMN created_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE orders ADD COLUMN updated_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE trade_history ADD COLUMN created_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE trade_history ADD COLUMN updated_at BIGINT NOT NULL DEFAULT 0;

-- Where the archive has what a model reasoned beside its reply.
ALTER TABLE decision_runs ADD COLUMN reason_key TEXT;

UPDATE decision_runs SET created_at = (
    SELECT e.known_at FROM log_events e
    WHERE e.owner = decision_runs.owner AND e.deployment = decision_runs.deployment AND e.seq = decision_runs.seq
);
UPDATE decision_runs SET ended_at = (
    SELECT e.known_at FROM log_events e
    WHERE e.owner = decision_runs.owner AND e.deployment = decision_runs.deployment AND e.seq = decision_runs.ended_seq
)
WHERE ended_seq IS NOT NULL;
UPDATE orders SET created_at = (
    SELECT e.known_at FROM log_events e
    WHERE e.owner = orders.owner AND e.deployment = orders.deployment AND e.seq = orders.seq
), updated_at = (
    SELECT e.known_at FROM log_events e
    WHERE e.owner = orders.owner AND e.deployment = orders.deployment
        AND e.seq = COALESCE(orders.ended_seq, orders.placed_seq, orders.seq)
);
-- An order whose answer was lost was written once more, by an event that no column names.
UPDATE orders SET updated_at = (
    SELECT MAX(e.known_at) FROM log_events e
    WHERE e.owner = orders.owner AND e.deployment = orders.deployment
        AND e.kind = 'order.unanswered' AND e.body LIKE '%"client_id":"' || orders.client_id || '"%'
)
WHERE ended_seq IS NULL AND placed_seq IS NULL AND detail <> '';
UPDATE trade_history SET created_at = (
    SELECT e.known_at FROM log_events e
    WHERE e.owner = trade_history.owner AND e.deployment = trade_history.deployment AND e.seq = trade_history.entry_seq
), updated_at = (
    SELECT e.known_at FROM log_events e
    WHERE e.owner = trade_history.owner AND e.deployment = trade_history.deployment
        AND e.seq = COALESCE(trade_history.exit_seq, trade_history.entry_seq)
);

-- Runs and actions by the names of docs/tables.md: what follows from other columns is stored nowhere.
CREATE VIEW run_report AS
SELECT
    r.owner, r.deployment, r.seq, r.run_id AS id, r.agent, r.agent_version, r.branch AS branch_id, r.symbol, r.status,
    r.run_trigger, r.scheduled_for,
    CASE WHEN r.packet_sha256 = '' THEN NULL ELSE r.as_of END AS started_at,
    CASE WHEN r.status = 'placed' THEN NULL ELSE COALESCE(r.ended_at, r.created_at) END AS completed_at,
    r.engine, r.model, r.packet_key AS prompt_key, r.packet_key AS context_key, r.reply_key AS response_key,
    r.reason_key, r.error AS error_message, r.created_at, COALESCE(r.ended_at, r.created_at) AS updated_at,
    CASE WHEN r.deployment LIKE '%-dry' THEN 1 ELSE 0 END AS dry
FROM decision_runs r;

-- A run has one order at most, which belongs to the action that was allowed to trade.
CREATE VIEW action_report AS
SELECT
    a.owner, a.deployment, a.seq, a.position, a.run_id || '/' || a.position AS id, a.run_id, r.agent, a.symbol,
    a.action, a.side, a.confidence_e4,
    CASE
        WHEN a.allowed = 0 THEN 'refused'
        WHEN a.action = 'hold' THEN 'held'
        ELSE COALESCE(o.status, 'allowed')
    END AS status,
    o.size_e8 AS quantity_e8, a.notional_usd_e6, a.limit_price_e8, a.reason AS reason_summary,
    o.client_id AS order_id, r.reason_key,
    CASE WHEN a.allowed = 0 THEN a.detail ELSE COALESCE(o.detail, '') END AS error_message,
    r.created_at, COALESCE(o.updated_at, r.created_at) AS updated_at
FROM decision_actions a
JOIN decision_runs r ON r.owner = a.owner AND r.deployment = a.deployment AND r.seq = a.seq
LEFT JOIN orders o ON o.run_id = a.run_id AND o.owner = a.owner AND o.symbol = a.symbol
    AND a.allowed = 1 AND a.action <> 'hold';
