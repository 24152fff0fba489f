-- name: add
-- A decision that is due; one that is listed or made already is left out.
INSERT INTO work (owner, deployment, symbol, scheduled_for, run_trigger, branch, run_id, state)
SELECT
    CAST(:owner AS TEXT), CAST(:deployment AS TEXT), CAST(:symbol AS TEXT), CAST(:scheduled_for AS BIGINT),
    CAST(:run_trigger AS TEXT), CAST(:branch AS TEXT), CAST(:run_id AS TEXT), 'pending'
WHERE NOT EXISTS (SELECT 1 FROM decision_runs WHERE run_id = :run_id)
ON CONFLICT (run_id) DO NOTHING;

-- name: newest_slot
-- The slot of a pair's newest scheduled decision, and the newest one that waits.
SELECT (
    SELECT r.scheduled_for FROM decision_runs r
    WHERE r.owner = :owner AND r.deployment = :deployment AND r.symbol = :symbol AND r.run_trigger = 'schedule'
    ORDER BY r.seq DESC LIMIT 1
), (
    SELECT MAX(w.scheduled_for) FROM work w
    WHERE w.owner = :owner AND w.deployment = :deployment AND w.symbol = :symbol AND w.run_trigger = 'schedule'
);

-- name: waiting
-- Deployments with decisions to make: since when, when the last scheduled one was made, 0 before the first, how many are of
-- their newest slot, and how many of older ones. A slot that expired before anybody looked at it is no decision.
SELECT w.deployment, w.since, COALESCE((
    SELECT r.as_of FROM decision_runs r
    WHERE r.owner = :owner AND r.deployment = w.deployment AND r.run_trigger = 'schedule'
        AND NOT (r.status = 'expired' AND r.packet_sha256 = '')
    ORDER BY r.seq DESC LIMIT 1
), 0), w.newest, w.older
FROM (
    SELECT
        deployment, MIN(scheduled_for) AS since,
        COUNT(CASE WHEN scheduled_for = last_slot THEN 1 END) AS newest,
        COUNT(CASE WHEN scheduled_for < last_slot THEN 1 END) AS older
    FROM (
        SELECT deployment, scheduled_for, MAX(scheduled_for) OVER (PARTITION BY deployment) AS last_slot
        FROM work WHERE owner = :owner
    ) listed
    GROUP BY deployment
) w;

-- name: of
-- What a deployment has to decide, oldest first, and whether that was done: a scheduler that lists a decision while it is
-- recorded may list it once more.
SELECT
    run_id, symbol, scheduled_for, run_trigger, branch, as_of, tape_seq, book_seq, docs_seq, curated_seq,
    EXISTS (SELECT 1 FROM decision_runs WHERE decision_runs.run_id = work.run_id)
FROM work
WHERE owner = :owner AND deployment = :deployment ORDER BY scheduled_for, symbol, run_id;

-- name: open
-- What a decision may know, written at its first attempt and never again.
UPDATE work SET
    state = 'running', as_of = :as_of, tape_seq = :tape_seq, book_seq = :book_seq, docs_seq = :docs_seq,
    curated_seq = :curated_seq
WHERE run_id = :run_id AND as_of IS NULL;

-- name: remove
-- A decision that was made.
DELETE FROM work WHERE run_id = :run_id;

-- name: counts
-- How much is to be done, by state.
SELECT state, COUNT(*) FROM work WHERE owner = :owner GROUP BY state;

-- name: with_orders
-- Deployments with orders that have not ended. The joined text leaves SQLite the index of such orders, instead of one
-- of all orders: this is asked ten times a second.
SELECT DISTINCT deployment FROM orders WHERE owner || '' = :owner AND ended_seq IS NULL ORDER BY deployment;

-- name: with_positions
-- Deployments that hold something and were last valued before a moment.
SELECT DISTINCT t.deployment FROM trade_history t
WHERE t.owner = :owner AND t.status = 'open' AND COALESCE((
    SELECT s.happened_at FROM portfolio_snapshots s
    WHERE s.owner = t.owner AND s.deployment = t.deployment ORDER BY s.seq DESC LIMIT 1
), 0) < :before
ORDER BY t.deployment;

-- name: deployed
-- The agent and version a deployment runs.
SELECT agent, version FROM deployments WHERE owner = :owner AND deployment = :deployment ORDER BY seq DESC LIMIT 1;
