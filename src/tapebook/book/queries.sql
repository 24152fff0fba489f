-- name: agents
-- Every agent of an owner with its newest version; when asked, those that were removed too.
SELECT v.agent, v.version, v.profile_json FROM agent_versions v
WHERE v.owner = :owner AND v.removed <= :removed AND v.version = (SELECT MAX(n.version) FROM agent_versions n WHERE n.owner = v.owner AND n.agent = v.agent)
ORDER BY v.agent;

-- name: agent_names
-- Every agent of an owner, those that were removed too.
SELECT DISTINCT agent FROM agent_versions WHERE owner = :owner ORDER BY agent;

-- name: agent_version
-- One version of one agent.
SELECT version, profile_json, NULL FROM agent_versions WHERE owner = :owner AND agent = :agent AND version = :version;

-- name: agent
-- The newest version of one agent, and when it became known if it ended the agent.
SELECT version, profile_json, CASE WHEN removed = 1 THEN known_at END FROM agent_versions
WHERE owner = :owner AND agent = :agent ORDER BY version DESC LIMIT 1;

-- name: agent_as_of
-- The newest version of one agent as of a sequence number of the owner's stream, and whether it ended the agent.
SELECT version, profile_json, removed FROM agent_versions
WHERE owner = :owner AND agent = :agent AND seq <= :seq ORDER BY version DESC LIMIT 1;

-- name: agent_removed
-- When the newest version of one agent became known, if it ended the agent.
SELECT v.known_at FROM agent_versions v
WHERE v.owner = :owner AND v.agent = :agent AND v.removed = 1
    AND v.version = (SELECT MAX(n.version) FROM agent_versions n WHERE n.owner = v.owner AND n.agent = v.agent);

-- name: agent_history
-- Every version of one agent and when it became known, newest first.
SELECT known_at, profile_json FROM agent_versions WHERE owner = :owner AND agent = :agent ORDER BY version DESC;

-- name: deployed
-- The agent version a deployment runs as of a sequence number.
SELECT agent, version, broker FROM deployments
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq DESC LIMIT 1;

-- name: halts
-- The newest word on every subject that was ever halted: one deployment, or (empty) all of them.
SELECT c.subject, c.reason FROM desk_controls c
WHERE c.owner = :owner AND c.halted = 1
    AND c.seq = (SELECT MAX(n.seq) FROM desk_controls n WHERE n.owner = c.owner AND n.subject = c.subject)
ORDER BY c.subject;

-- name: flatten_due
-- Symbols somebody wants flat in which something that had begun by then is left, each with the newest such wish.
SELECT begun.symbol, MAX(f.known_at) FROM desk_flattenings f
JOIN (
    SELECT t.symbol AS symbol, t.entry_tick_at AS began FROM trade_history t
    WHERE t.owner = :owner AND t.deployment = :deployment AND t.status = 'open'
    UNION ALL
    SELECT o.symbol, o.intended_at FROM orders o
    WHERE o.owner = :owner AND o.deployment = :deployment AND o.ended_seq IS NULL AND o.run_id <> ''
) begun ON begun.began <= f.known_at AND f.symbol IN ('', begun.symbol)
WHERE f.owner = :owner AND f.subject IN ('', :deployment)
GROUP BY begun.symbol ORDER BY begun.symbol;

-- name: deployment_names
-- Every deployment an owner ever had, of one agent or (empty) of all, with its agent.
SELECT DISTINCT deployment, agent FROM deployments
WHERE owner = :owner AND (:agent = '' OR agent = :agent) ORDER BY deployment, agent;

-- name: cash
-- Cash as of a sequence number.
SELECT balance_usd_e6 FROM wallet_ledger
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq DESC, line DESC LIMIT 1;

-- name: open_trades
-- Positions held as of a sequence number, with their trades. The symbols ever traded are found by
-- stepping through the key, so the cost does not grow with the number of trades. SQLite keeps the
-- order of a CROSS JOIN; without it, it would begin with every version of every position.
WITH RECURSIVE traded (symbol) AS (
    SELECT MIN(symbol) FROM positions WHERE owner = :owner AND deployment = :deployment
    UNION ALL
    SELECT (SELECT MIN(p.symbol) FROM positions p WHERE p.owner = :owner AND p.deployment = :deployment AND p.symbol > traded.symbol)
    FROM traded WHERE traded.symbol IS NOT NULL
)
SELECT p.symbol, p.size_e8, p.cost_usd_e6, p.leverage, p.margin_usd_e6, p.moved_at, {trade_as_of}
FROM traded
CROSS JOIN positions p
JOIN trade_history t ON t.id = p.trade_id
WHERE p.owner = :owner AND p.deployment = :deployment AND p.symbol = traded.symbol
    AND p.seq = (
        SELECT MAX(n.seq) FROM positions n
        WHERE n.owner = :owner AND n.deployment = :deployment AND n.symbol = traded.symbol AND n.seq <= :seq
    )
    AND p.size_e8 <> 0
ORDER BY p.symbol;

-- name: closed_trades
-- The trades that ended last as of a sequence number, newest exit first; those of which fills are missing when asked for.
SELECT {trade}, {exit} FROM trade_history t
WHERE owner = :owner AND deployment = :deployment AND exit_seq <= :seq
    AND SUBSTR(lacks, 1, 5) <> 'fills'
ORDER BY exit_seq DESC LIMIT :most;

-- name: closed_trades_until
-- The trades that ended last as of a sequence number and by a moment, newest exit first.
SELECT {trade}, {exit} FROM trade_history t
WHERE owner = :owner AND deployment = :deployment AND exit_seq <= :seq AND exit_tick_at <= :until
    AND SUBSTR(lacks, 1, 5) <> 'fills'
ORDER BY exit_seq DESC LIMIT :most;

-- name: last_run
-- The newest decision on a symbol as of a sequence number; a shadow's is nobody's, and an expired slot has none. One whose
-- order expired at the gate is passed over where that is asked for, from when that was known.
SELECT {run} FROM decision_runs
WHERE owner = :owner AND deployment = :deployment AND symbol = :symbol AND seq <= :seq
    AND run_trigger <> 'shadow'
    AND NOT (status = 'expired' AND (packet_sha256 = '' OR (:without_expired = 1 AND ended_seq <= :seq)))
ORDER BY seq DESC LIMIT 1;

-- name: last_run_until
-- The newest decision on a symbol as of a sequence number that was made by a moment.
SELECT {run} FROM decision_runs
WHERE owner = :owner AND deployment = :deployment AND symbol = :symbol AND seq <= :seq AND as_of <= :until
    AND run_trigger <> 'shadow' AND NOT (status = 'expired' AND packet_sha256 = '')
ORDER BY seq DESC LIMIT 1;

-- name: run
-- One decision, found by its id; an owner sees only their own. The event at `seq` has the rest of it.
SELECT {run} FROM decision_runs WHERE owner = :owner AND run_id = :run_id;

-- name: runs_between
-- The decisions whose id lies between two texts, with whose they are; by their id. The joined text, here and below, leaves
-- SQLite the index of ids: by the owner alone it would look at every decision, or every order, there ever was.
SELECT run_id, agent, symbol, as_of FROM decision_runs
WHERE owner || '' = :owner AND run_id >= :first AND run_id < :beyond ORDER BY run_id;

-- name: run_record
-- When a run began, was written, changed and was complete.
SELECT started_at, completed_at, created_at, updated_at FROM run_report WHERE owner = :owner AND id = :run_id;

-- name: action_records
-- What became of each action of a run.
SELECT a.status, a.order_id, a.quantity_e8 FROM run_report r
JOIN action_report a ON a.owner = r.owner AND a.deployment = r.deployment AND a.seq = r.seq
WHERE r.owner = :owner AND r.id = :run_id ORDER BY a.position;

-- name: trade_times
-- When a round trip was written, and when it was changed last.
SELECT created_at, updated_at FROM trade_history WHERE owner = :owner AND id = :id;

-- name: runs
-- An owner's newest decisions, of one deployment or (empty) of all.
SELECT run_id FROM decision_runs
WHERE owner = :owner AND (:deployment = '' OR deployment = :deployment)
ORDER BY as_of DESC, deployment, seq DESC LIMIT :most;

-- name: degraded_runs
-- An owner's decisions since a moment that lacked something, newest first, each with the causes.
SELECT run_id, degraded_causes_json FROM decision_runs
WHERE owner = :owner AND as_of >= :since AND degraded_causes_json <> '[]'
ORDER BY as_of DESC, deployment, seq DESC;

-- name: run_exists
-- Whether a decision was made already.
SELECT 1 FROM decision_runs WHERE owner = :owner AND run_id = :run_id;

-- name: run_counts
-- How many decisions there are, by status.
SELECT status, COUNT(*) FROM decision_runs WHERE owner = :owner GROUP BY status ORDER BY status;

-- name: actions
-- The actions of the run that an event of a deployment decided, with their verdicts.
SELECT
    action, symbol, side, notional_usd_e6, leverage, order_type, limit_price_e8, confidence_e4, reason, cites_json,
    allowed, rule, detail, flags_json
FROM decision_actions
WHERE owner = :owner AND deployment = :deployment AND seq = :seq ORDER BY position;

-- name: action_counts
-- How many actions were proposed, by action and the rule that refused them (empty when allowed).
SELECT action, COALESCE(rule, ''), COUNT(*) FROM decision_actions WHERE owner = :owner
GROUP BY action, COALESCE(rule, '') ORDER BY action, COALESCE(rule, '');

-- name: working_orders
-- Orders that have not ended, oldest first.
SELECT
    client_id, run_id, symbol, side, size_e8, order_type, limit_price_e8, reduce_only, leverage, intended_at, placed_seq
FROM orders WHERE owner = :owner AND deployment = :deployment AND ended_seq IS NULL ORDER BY seq, client_id;

-- name: unanswered_orders
-- Orders nobody knows whether the broker has, of one deployment or (empty) of all, oldest first. The joined text leaves
-- SQLite the index of orders that have not ended, instead of one of all orders.
SELECT
    client_id, run_id, symbol, side, size_e8, order_type, limit_price_e8, reduce_only, leverage, intended_at,
    deployment, status, detail, created_at, updated_at, dry
FROM orders
WHERE owner || '' = :owner AND (:deployment = '' OR deployment = :deployment)
    AND ended_seq IS NULL AND placed_seq IS NULL AND detail <> ''
ORDER BY intended_at, deployment, client_id;

-- name: order_reason
-- The run that placed an order, and the reason it gave; a hold beside it places nothing.
SELECT o.run_id, a.reason, r.book_seq FROM orders o
JOIN decision_runs r ON r.run_id = o.run_id
JOIN decision_actions a ON a.owner = r.owner AND a.deployment = r.deployment AND a.seq = r.seq
    AND a.symbol = o.symbol AND a.allowed = 1 AND a.action <> 'hold'
WHERE o.owner = :owner AND o.client_id = :client_id ORDER BY a.position LIMIT 1;

-- name: open_orders_of_run
-- How many orders of a run have not ended.
SELECT COUNT(*) FROM orders WHERE owner || '' = :owner AND run_id = :run_id AND ended_seq IS NULL;

-- name: newest_snapshot
-- What the account was last known to be worth.
SELECT happened_at, cash_usd_e6, equity_usd_e6, walked_until, marks_json FROM portfolio_snapshots
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq DESC LIMIT 1;

-- name: closed_after
-- The trades that ended between two sequence numbers, oldest exit first; without those of which fills are missing.
SELECT {trade}, {exit} FROM trade_history t
WHERE owner = :owner AND deployment = :deployment AND exit_seq > :after AND exit_seq <= :seq
    AND SUBSTR(lacks, 1, 5) <> 'fills'
ORDER BY exit_seq LIMIT :most;

-- name: closed_on
-- The trades that ended between two moments, as far as they were known as of a sequence number, with the engine that
-- entered each and how sure the allowed action was. The plus keeps SQLite from searching by it.
SELECT {trade}, {exit}, r.engine, (
        SELECT a.confidence_e4 FROM decision_actions a
        WHERE a.owner = r.owner AND a.deployment = r.deployment AND a.seq = r.seq
            AND a.symbol = t.symbol AND a.side = t.side AND a.allowed = 1 AND a.action IN ('open', 'adjust')
        ORDER BY a.position LIMIT 1
    )
FROM trade_history t
LEFT JOIN decision_runs r ON r.run_id = t.entry_run_id AND r.owner = t.owner
WHERE t.owner = :owner AND t.deployment = :deployment AND t.exit_tick_at >= :since AND t.exit_tick_at < :until
    AND +t.exit_seq <= :seq AND SUBSTR(t.lacks, 1, 5) <> 'fills'
ORDER BY t.exit_tick_at, t.id;

-- name: results_between
-- Of the trades that ended between two moments, as far as they were known as of a sequence number: how many, how many won,
-- what they came to, and when the last one ended.
SELECT
    COUNT(*),
    COALESCE(SUM(CASE WHEN t.realised_usd_e6 - t.fees_usd_e6 + t.funding_usd_e6 > 0 THEN 1 ELSE 0 END), 0),
    COALESCE(CAST(SUM(t.realised_usd_e6 - t.fees_usd_e6 + t.funding_usd_e6) AS BIGINT), 0),
    COALESCE(MAX(t.exit_tick_at), 0)
FROM trade_history t
WHERE t.owner = :owner AND t.deployment = :deployment AND t.exit_tick_at >= :since AND t.exit_tick_at < :until
    AND +t.exit_seq <= :seq AND SUBSTR(t.lacks, 1, 5) <> 'fills';

-- name: days_changed
-- The days (counted since 1970) of trades that ended and of what was posted between two sequence numbers, each with the
-- first event of it; what was paid in or out is no result.
SELECT day, MIN(seq) FROM (
    SELECT exit_tick_at / 86400000 AS day, exit_seq AS seq FROM trade_history
    WHERE owner = :owner AND deployment = :deployment AND exit_seq > :after AND exit_seq <= :seq
    UNION ALL
    SELECT happened_at / 86400000, seq FROM wallet_ledger
    WHERE owner = :owner AND deployment = :deployment AND seq > :after AND seq <= :seq
        AND kind NOT IN ('deposit', 'withdrawal', 'dry_order')
) news
GROUP BY day ORDER BY day;

-- name: posted_on
-- What was posted between two moments, as of a sequence number, save what was paid in or out; nothing when nothing was.
SELECT CAST(SUM(amount_usd_e6) AS BIGINT) FROM wallet_ledger
WHERE owner = :owner AND deployment = :deployment AND happened_at >= :since AND happened_at < :until AND +seq <= :seq
    AND kind NOT IN ('deposit', 'withdrawal', 'dry_order');

-- name: closed_since
-- How many trades ended between two sequence numbers, and when the first of them did.
SELECT COUNT(*), MIN(exit_tick_at) FROM trade_history
WHERE owner = :owner AND deployment = :deployment AND exit_seq > :after AND exit_seq <= :seq
    AND SUBSTR(lacks, 1, 5) <> 'fills';

-- name: closed_count
-- How many round trips an owner has completed.
SELECT COUNT(*) FROM trade_history WHERE owner = :owner AND status = 'closed';

-- name: orders
-- An owner's newest orders, of one deployment or (empty) of all; only those that have not ended when asked for.
SELECT
    client_id, run_id, symbol, side, size_e8, order_type, limit_price_e8, reduce_only, leverage, intended_at,
    deployment, status, detail, created_at, updated_at, dry
FROM orders
WHERE owner = :owner AND (:deployment = '' OR deployment = :deployment) AND (:working = 0 OR ended_seq IS NULL)
ORDER BY intended_at DESC, deployment, seq DESC, client_id LIMIT :most;

-- name: order
-- One order by its client id.
SELECT client_id, run_id, symbol, side, size_e8, order_type, limit_price_e8, reduce_only, leverage, intended_at
FROM orders WHERE owner = :owner AND client_id = :client_id;

-- name: dry_orders
-- How many orders of a dry run a deployment has, as of a sequence number.
SELECT COUNT(*) FROM orders WHERE owner = :owner AND deployment = :deployment AND dry = 1 AND seq <= :seq;

-- name: orders_of_run
-- The orders of a run with what became of them, as they were intended.
SELECT
    client_id, run_id, symbol, side, size_e8, order_type, limit_price_e8, reduce_only, leverage, intended_at,
    deployment, status, detail, created_at, updated_at, dry
FROM orders WHERE owner || '' = :owner AND run_id = :run_id ORDER BY seq, client_id;

-- name: fills_of_run
-- What was executed of a run's orders; nothing is filled before it was intended.
SELECT
    f.fill_id, f.symbol, f.happened_at, f.signed_size_e8, f.price_e8, f.fee_usd_e6, f.maker, f.client_id, f.liquidation
FROM orders o
JOIN fills f ON f.owner = o.owner AND f.deployment = o.deployment AND f.seq > o.seq AND f.client_id = o.client_id
WHERE o.owner || '' = :owner AND o.run_id = :run_id ORDER BY f.seq;

-- name: trades_of_run
-- The round trips a run opened, ended or changed, in their newest version. A fill changes the trade of the first
-- version of its position after it; one that turns a position also opens a second trade, which names the run.
WITH filled (deployment, symbol, seq) AS (
    SELECT f.deployment, f.symbol, f.seq FROM orders o
    JOIN fills f ON f.owner = o.owner AND f.deployment = o.deployment AND f.seq > o.seq AND f.client_id = o.client_id
    WHERE o.owner || '' = :owner AND o.run_id = :run_id
),
touched (id) AS (
    SELECT p.trade_id FROM filled
    JOIN positions p ON p.owner = :owner AND p.deployment = filled.deployment AND p.symbol = filled.symbol
        AND p.seq = (
            SELECT MIN(n.seq) FROM positions n WHERE n.owner = :owner
            AND n.deployment = filled.deployment AND n.symbol = filled.symbol AND n.seq > filled.seq
        )
    UNION
    SELECT t.id FROM decision_runs r
    JOIN trade_history t ON t.owner = r.owner AND t.deployment = r.deployment AND t.entry_run_id = r.run_id
        AND t.entry_tick_at >= r.as_of
    WHERE r.owner = :owner AND r.run_id = :run_id
)
SELECT {trade_as_of}, {exit}, t.deployment, t.agent, t.agent_version
FROM touched
JOIN trade_history t ON t.owner || '' = :owner AND t.id = touched.id
JOIN positions p ON p.owner = t.owner AND p.deployment = t.deployment AND p.symbol = t.symbol AND p.seq = (
    SELECT MAX(n.seq) FROM positions n
    WHERE n.owner = t.owner AND n.deployment = t.deployment AND n.symbol = t.symbol AND n.trade_id = t.id
)
ORDER BY t.entry_seq;

-- name: shadow_pairs
-- The newest shadow decisions of a deployment, each with the main one of the same tick; that was decided just before it.
SELECT s.run_id, m.run_id FROM decision_runs s
LEFT JOIN decision_runs m ON m.owner = s.owner AND m.deployment = s.deployment AND m.seq > s.book_seq AND m.seq < s.seq
    AND m.symbol = s.symbol AND m.branch = 'main' AND m.as_of = s.as_of AND m.tape_seq = s.tape_seq
    AND m.book_seq = s.book_seq
WHERE s.owner = :owner AND s.deployment = :deployment AND s.branch = 'shadow'
ORDER BY s.seq DESC LIMIT :most;

-- name: newest_fill
-- When a deployment's latest fill happened.
SELECT MAX(happened_at) FROM fills WHERE owner = :owner AND deployment = :deployment;

-- name: fill
-- One fill of a deployment, found by its id.
SELECT fill_id, symbol, happened_at, signed_size_e8, price_e8, fee_usd_e6, maker, client_id, liquidation
FROM fills WHERE owner = :owner AND deployment = :deployment AND fill_id = :fill_id;

-- name: has_funding
-- Whether the funding of a symbol at a moment is there. What was posted at the moment is picked out first: SQLite would
-- go through all that a deployment ever posted.
SELECT 1 FROM wallet_ledger
WHERE owner = :owner AND deployment = :deployment AND happened_at = :at AND kind = 'funding' AND symbol = :symbol
    AND seq IN (
        SELECT n.seq FROM wallet_ledger n
        WHERE n.owner = :owner AND n.deployment = :deployment AND n.happened_at = :at AND n.kind = 'funding'
    )
LIMIT 1;

-- name: has_spot_fill
-- Whether a spot fill is there, by its id.
SELECT 1 FROM spot_fills WHERE owner = :owner AND deployment = :deployment AND fill_id = :fill_id;

-- name: trade_ended
-- The event that ended a trade.
SELECT exit_seq FROM trade_history WHERE owner = :owner AND id = :id;

-- name: trade_lacks
-- What is not known of a trade.
SELECT lacks FROM trade_history WHERE owner = :owner AND id = :id;

-- name: session_refusals
-- What was refused between two moments, with its own: by a rule of the guard, as no readable reply, which has no actions, or
-- as an order at the gate or by the broker, with the words then. A shadow's are nobody's, and a flattening is no decision.
-- The plus before seq, here and below, keeps SQLite from searching by it: few rows are of the hour, all are before the
-- watermark. For replay there is an end too, far enough that nothing known lies beyond it.
SELECT
    r.as_of, r.seq, COALESCE(a.position, 0), COALESCE(a.rule, :unreadable), '', CASE WHEN a.rule IS NULL THEN 0 ELSE 1 END
FROM decision_runs r
LEFT JOIN decision_actions a ON a.owner = r.owner AND a.deployment = r.deployment AND a.seq = r.seq AND a.rule IS NOT NULL
WHERE r.owner = :owner AND r.deployment = :deployment AND r.as_of > :hour AND r.as_of <= :as_of AND +r.seq <= :seq
    AND r.branch = 'main' AND r.run_trigger <> 'shadow'
    AND (a.rule IS NOT NULL OR (r.status = 'rejected' AND r.error IS NOT NULL))
UNION ALL
SELECT o.intended_at, o.ended_seq, 0, NULL, o.detail, 0 FROM orders o
WHERE o.owner = :owner AND o.deployment = :deployment AND o.intended_at > :hour AND o.intended_at <= :as_of
    AND +o.ended_seq <= :seq AND o.status = 'rejected' AND o.run_id <> '';

-- name: order_outcomes
-- How far the orders of a run had come as of a sequence number.
SELECT
    symbol,
    CASE WHEN ended_seq <= :seq THEN status WHEN placed_seq <= :seq THEN 'working' ELSE 'intended' END,
    CASE WHEN ended_seq <= :seq THEN detail ELSE '' END
FROM orders WHERE owner || '' = :owner AND run_id = :run_id AND seq <= :seq ORDER BY seq, client_id;

-- name: session_intended
-- When orders were intended between two moments.
SELECT intended_at FROM orders
WHERE owner = :owner AND deployment = :deployment AND intended_at > :since AND intended_at <= :until AND +seq <= :seq;

-- name: session_results
-- All that was posted today save what was paid in or out, or a dry run noted.
SELECT COALESCE(CAST(SUM(amount_usd_e6) AS BIGINT), 0) FROM wallet_ledger
WHERE owner = :owner AND deployment = :deployment AND happened_at >= :today AND happened_at <= :until AND +seq <= :seq
    AND kind NOT IN ('deposit', 'withdrawal', 'dry_order');

-- name: session_fills
-- What was executed today, by symbol: how many orders, and what was held before the first fill; a size of zero is nothing.
SELECT f.symbol, f.orders, p.size_e8, p.cost_usd_e6, p.leverage
FROM (
    SELECT symbol, COUNT(DISTINCT client_id) AS orders, MIN(seq) AS first_seq FROM fills
    WHERE owner = :owner AND deployment = :deployment AND happened_at >= :today AND happened_at <= :until AND +seq <= :seq
    GROUP BY symbol
) f
LEFT JOIN positions p ON p.owner = :owner AND p.deployment = :deployment AND p.symbol = f.symbol
    AND p.seq = (
        SELECT MAX(n.seq) FROM positions n
        WHERE n.owner = :owner AND n.deployment = :deployment AND n.symbol = f.symbol AND n.seq < f.first_seq
    )
ORDER BY f.symbol;

-- name: session_nets
-- The results of the trades that ended last, newest first.
SELECT realised_usd_e6 - fees_usd_e6 + funding_usd_e6 FROM trade_history
WHERE owner = :owner AND deployment = :deployment AND exit_seq <= :seq ORDER BY exit_seq DESC LIMIT :most;

-- name: session_closes
-- The last close of every symbol that was traded, with its result. The symbols are found by stepping through the index.
WITH RECURSIVE traded (symbol) AS (
    SELECT MIN(symbol) FROM trade_history WHERE owner = :owner AND deployment = :deployment
    UNION ALL
    SELECT (
        SELECT MIN(t.symbol) FROM trade_history t
        WHERE t.owner = :owner AND t.deployment = :deployment AND t.symbol > traded.symbol
    )
    FROM traded WHERE traded.symbol IS NOT NULL
)
SELECT t.symbol, t.exit_tick_at, t.realised_usd_e6 - t.fees_usd_e6 + t.funding_usd_e6 FROM traded
CROSS JOIN trade_history t
WHERE t.owner = :owner AND t.deployment = :deployment AND t.symbol = traded.symbol
    AND t.exit_seq = (
        SELECT MAX(n.exit_seq) FROM trade_history n
        WHERE n.owner = :owner AND n.deployment = :deployment AND n.symbol = traded.symbol AND n.exit_seq <= :seq
    )
ORDER BY t.symbol;

-- name: orders_under_way
-- Of the newest orders as of a sequence number those that had not ended by then, oldest first.
SELECT client_id, run_id, symbol, side, size_e8, order_type, limit_price_e8, reduce_only, leverage, intended_at
FROM (
    SELECT * FROM orders
    WHERE owner = :owner AND deployment = :deployment AND intended_at <= :until AND +seq <= :seq
    ORDER BY intended_at DESC, client_id DESC LIMIT :most
) newest
WHERE ended_seq IS NULL OR ended_seq > :seq ORDER BY seq, client_id;
