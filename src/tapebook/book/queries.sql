-- name: agents
-- Every agent of an owner with its newest version.
SELECT v.agent, v.version, v.profile_json FROM agent_versions v
WHERE v.owner = :owner AND v.version = (SELECT MAX(n.version) FROM agent_versions n WHERE n.owner = v.owner AND n.agent = v.agent)
ORDER BY v.agent;

-- name: agent_version
-- One version of one agent.
SELECT version, profile_json FROM agent_versions WHERE owner = :owner AND agent = :agent AND version = :version;

-- name: agent
-- The newest version of one agent.
SELECT version, profile_json FROM agent_versions WHERE owner = :owner AND agent = :agent ORDER BY version DESC LIMIT 1;

-- name: deployed
-- The agent version a deployment runs as of a sequence number.
SELECT agent, version, broker FROM deployments
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq DESC LIMIT 1;

-- name: cash
-- Cash as of a sequence number.
SELECT balance_usd_e6 FROM wallet_ledger
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq DESC, line DESC LIMIT 1;

-- name: open_trades
-- Positions held as of a sequence number, with their trades. The symbols ever traded are found by
-- stepping through the key, so the cost does not grow with the number of trades.
WITH RECURSIVE traded (symbol) AS (
    SELECT MIN(symbol) FROM positions WHERE owner = :owner AND deployment = :deployment
    UNION ALL
    SELECT (SELECT MIN(p.symbol) FROM positions p WHERE p.owner = :owner AND p.deployment = :deployment AND p.symbol > traded.symbol)
    FROM traded WHERE traded.symbol IS NOT NULL
)
SELECT
    p.symbol, p.size_e8, p.cost_usd_e6, p.leverage,
    t.id, t.side, t.entry_tick_at, t.entry_mark_e8, t.entry_leverage, t.entry_reason, t.entry_run_id,
    t.entry_regime_tag, t.entry_lessons_hash,
    p.entered_e8, p.entered_usd_e6, p.funded_until, p.exited_e8, p.exited_usd_e6, p.realised_usd_e6, p.fees_usd_e6,
    p.funding_usd_e6, p.mfe_usd_e6, p.mae_usd_e6
FROM traded
JOIN positions p ON p.owner = :owner AND p.deployment = :deployment AND p.symbol = traded.symbol
    AND p.seq = (
        SELECT MAX(n.seq) FROM positions n
        WHERE n.owner = :owner AND n.deployment = :deployment AND n.symbol = traded.symbol AND n.seq <= :seq
    )
JOIN trade_history t ON t.id = p.trade_id
WHERE p.size_e8 <> 0
ORDER BY p.symbol;

-- name: closed_trades
-- The trades that ended last as of a sequence number, newest exit first.
SELECT
    id, symbol, side, entry_tick_at, entry_mark_e8, entry_leverage, entry_reason, entry_run_id,
    entry_regime_tag, entry_lessons_hash, entered_e8, entered_usd_e6, funded_until, exited_e8, exited_usd_e6,
    realised_usd_e6, fees_usd_e6, funding_usd_e6, mfe_usd_e6, mae_usd_e6, exit_tick_at, exit_reason, exit_run_id
FROM trade_history
WHERE owner = :owner AND deployment = :deployment AND exit_seq <= :seq
ORDER BY exit_seq DESC LIMIT :most;

-- name: trade_maker
-- The agent and version that opened a trade.
SELECT agent, agent_version FROM trade_history WHERE owner = :owner AND id = :id;

-- name: last_run
-- The newest decision on a symbol as of a sequence number.
SELECT run_id, seq FROM decision_runs
WHERE owner = :owner AND deployment = :deployment AND symbol = :symbol AND seq <= :seq
ORDER BY seq DESC LIMIT 1;

-- name: run
-- One decision, found by its id; an owner sees only their own.
SELECT
    run_id, owner, deployment, agent, agent_version, symbol, scheduled_for, run_trigger, branch, as_of, tape_seq, book_seq,
    docs_seq, renderer, inputs_sha256, packet_sha256, tokens, engine, packet_key, reply_key, status,
    degraded_json, note, error
FROM decision_runs WHERE owner = :owner AND run_id = :run_id;

-- name: runs
-- An owner's newest decisions, of one deployment or (empty) of all.
SELECT run_id FROM decision_runs
WHERE owner = :owner AND (:deployment = '' OR deployment = :deployment)
ORDER BY as_of DESC, deployment, seq DESC LIMIT :most;

-- name: run_exists
-- Whether a decision was made already.
SELECT 1 FROM decision_runs WHERE run_id = :run_id;

-- name: run_counts
-- How many decisions there are, by status.
SELECT status, COUNT(*) FROM decision_runs WHERE owner = :owner GROUP BY status ORDER BY status;

-- name: actions
-- A run's actions with their verdicts.
SELECT
    action, symbol, side, notional_usd_e6, leverage, order_type, limit_price_e8, confidence_e4, reason,
    cites_json, allowed, rule, detail
FROM decision_actions
WHERE run_id = :run_id AND seq = (SELECT r.seq FROM decision_runs r WHERE r.run_id = :run_id)
ORDER BY position;

-- name: action_counts
-- How many actions were proposed, by action and the rule that refused them (empty when allowed).
SELECT action, COALESCE(rule, ''), COUNT(*) FROM decision_actions WHERE owner = :owner
GROUP BY action, COALESCE(rule, '') ORDER BY action, COALESCE(rule, '');

-- name: working_orders
-- Orders that have not ended, oldest first.
SELECT
    client_id, run_id, symbol, side, size_e8, order_type, limit_price_e8, reduce_only, leverage, intended_at, placed_seq
FROM orders WHERE owner = :owner AND deployment = :deployment AND ended_seq IS NULL ORDER BY seq, client_id;

-- name: order_reason
-- The run that placed an order, and the reason it gave; a hold beside it places nothing.
SELECT o.run_id, a.reason, o.leverage FROM orders o
JOIN decision_actions a ON a.run_id = o.run_id AND a.symbol = o.symbol AND a.allowed = 1 AND a.action <> 'hold'
WHERE o.client_id = :client_id ORDER BY a.position LIMIT 1;

-- name: open_orders_of_run
-- How many orders of a run have not ended.
SELECT COUNT(*) FROM orders WHERE run_id = :run_id AND ended_seq IS NULL;

-- name: newest_snapshot
-- What the account was last known to be worth.
SELECT happened_at, cash_usd_e6, equity_usd_e6 FROM portfolio_snapshots
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq DESC LIMIT 1;

-- name: ledger_gaps
-- Deployments whose last balance is not the sum of their ledger.
SELECT w.owner, w.deployment, CAST(SUM(w.amount_usd_e6) AS BIGINT), (
    SELECT l.balance_usd_e6 FROM wallet_ledger l
    WHERE l.owner = w.owner AND l.deployment = w.deployment ORDER BY l.seq DESC, l.line DESC LIMIT 1
)
FROM wallet_ledger w GROUP BY w.owner, w.deployment ORDER BY w.owner, w.deployment;

-- name: trade_totals
-- Closed trades of a deployment: how many, how many won, and their summed results.
SELECT
    COUNT(*),
    COALESCE(SUM(CASE WHEN realised_usd_e6 - fees_usd_e6 + funding_usd_e6 > 0 THEN 1 ELSE 0 END), 0),
    COALESCE(CAST(SUM(realised_usd_e6) AS BIGINT), 0),
    COALESCE(CAST(SUM(fees_usd_e6) AS BIGINT), 0),
    COALESCE(CAST(SUM(funding_usd_e6) AS BIGINT), 0)
FROM trade_history WHERE owner = :owner AND deployment = :deployment AND status = 'closed';

-- name: closed_count
-- How many round trips an owner has completed.
SELECT COUNT(*) FROM trade_history WHERE owner = :owner AND status = 'closed';
