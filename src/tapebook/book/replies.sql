-- name: kept
-- The answer that a question got before, and the run that asked it.
SELECT answer_json, run_id FROM kept_replies WHERE owner = :owner AND reply_key = :reply_key;

-- name: of_run
-- The answer that a run asked for.
SELECT answer_json, run_id FROM kept_replies WHERE owner = :owner AND run_id = :run_id;

-- name: keep
-- The first answer to a question stays.
INSERT INTO kept_replies (
    owner, reply_key, deployment, run_id, cost_usd_e6, answer_json, kept_at
) VALUES (
    :owner, :reply_key, :deployment, :run_id, :cost_usd_e6, :answer_json, :kept_at
) ON CONFLICT (owner, reply_key) DO NOTHING;

-- name: spent
-- What a deployment's models cost since a moment: the runs that are recorded, and answers whose run is not yet.
SELECT CAST(COALESCE((
    SELECT SUM(r.cost_usd_e6) FROM decision_runs r
    WHERE r.owner = :owner AND r.deployment = :deployment AND r.as_of >= :since AND r.cost_usd_e6 > 0
), 0) + COALESCE((
    SELECT SUM(k.cost_usd_e6) FROM kept_replies k
    WHERE k.owner = :owner AND k.deployment = :deployment AND k.kept_at >= :since AND k.cost_usd_e6 > 0
        AND NOT EXISTS (SELECT 1 FROM decision_runs d WHERE d.run_id = k.run_id)
), 0) AS BIGINT);
