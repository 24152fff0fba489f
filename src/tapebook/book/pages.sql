-- name: deployments_with_runs
-- Every deployment that decided something, found by stepping through the key.
WITH RECURSIVE found (deployment) AS (
    SELECT MIN(deployment) FROM decision_runs WHERE owner = :owner
    UNION ALL
    SELECT (SELECT MIN(r.deployment) FROM decision_runs r WHERE r.owner = :owner AND r.deployment > found.deployment)
    FROM found WHERE found.deployment IS NOT NULL
)
SELECT deployment FROM found WHERE deployment IS NOT NULL;

-- name: deployments_with_orders
-- Every deployment that intended an order, found by stepping through an index.
WITH RECURSIVE found (deployment) AS (
    SELECT MIN(deployment) FROM orders WHERE owner = :owner
    UNION ALL
    SELECT (SELECT MIN(o.deployment) FROM orders o WHERE o.owner = :owner AND o.deployment > found.deployment)
    FROM found WHERE found.deployment IS NOT NULL
)
SELECT deployment FROM found WHERE deployment IS NOT NULL;

-- name: run_place
-- Where a decision stands among all.
SELECT as_of, deployment, seq FROM decision_runs WHERE owner = :owner AND run_id = :id;

-- name: order_place
-- Where an order stands among all.
SELECT intended_at, deployment, seq FROM orders WHERE owner = :owner AND client_id = :id;

-- name: trade_place
-- Where a trade of a deployment stands: by its symbol while it was open, then by its end.
SELECT symbol, exit_seq FROM trade_history
WHERE owner = :owner AND deployment = :deployment AND id = :id AND entry_seq <= :seq;

-- name: runs_before
-- The newest decisions of a deployment that come behind a place, as far as a sequence number.
SELECT as_of, deployment, seq, run_id, created_at, status, ended_seq, ended_at FROM decision_runs
WHERE owner = :owner AND deployment = :deployment AND (as_of, seq) < (:moment, :place) AND seq <= :until
ORDER BY as_of DESC, seq DESC LIMIT :most;

-- name: orders_before
-- The newest orders of a deployment that come behind a place, as far as a sequence number; those alone that had not ended
-- when asked for.
SELECT
    intended_at, deployment, seq, placed_seq, ended_seq,
    client_id, run_id, symbol, side, size_e8, order_type, limit_price_e8, reduce_only, leverage, intended_at,
    deployment, status, detail, created_at, updated_at, dry
FROM orders
WHERE owner = :owner AND deployment = :deployment AND (intended_at, seq) < (:moment, :place) AND seq <= :until
    AND (:working = 0 OR ended_seq IS NULL OR ended_seq > :until)
ORDER BY intended_at DESC, seq DESC LIMIT :most;

-- name: orders_of
-- The orders of one decision, as far as a sequence number; the joined text leaves SQLite the index of runs.
SELECT
    intended_at, deployment, seq, placed_seq, ended_seq,
    client_id, run_id, symbol, side, size_e8, order_type, limit_price_e8, reduce_only, leverage, intended_at,
    deployment, status, detail, created_at, updated_at, dry
FROM orders
WHERE owner || '' = :owner AND run_id = :run_id AND seq <= :until ORDER BY seq;

-- name: closed_before
-- The trades of a deployment that ended before an event, newest exit first.
SELECT {trade}, {exit}, t.agent, t.agent_version, t.created_at, t.updated_at, t.lacks, t.entry_seq FROM trade_history t
WHERE owner = :owner AND deployment = :deployment AND exit_seq < :before
ORDER BY exit_seq DESC LIMIT :most;

-- name: trade_origin
-- Who opened a trade, when that was written, what is not known of it, and the event that opened it.
SELECT agent, agent_version, created_at, lacks, entry_seq FROM trade_history WHERE owner = :owner AND id = :id;
