-- name: ledger_sums
-- What the ledger of every deployment of an owner sums to without lines of a dry run, beside its last balance.
SELECT w.deployment, CAST(SUM(CASE WHEN w.dry = 0 THEN w.amount_usd_e6 ELSE 0 END) AS BIGINT), (
    SELECT l.balance_usd_e6 FROM wallet_ledger l
    WHERE l.owner = w.owner AND l.deployment = w.deployment ORDER BY l.seq DESC, l.line DESC LIMIT 1
)
FROM wallet_ledger w WHERE w.owner = :owner GROUP BY w.owner, w.deployment ORDER BY w.deployment;

-- name: ledger_sum_after
-- The lines of a deployment after a sequence number: the newest number there is, and their sum without dry runs.
SELECT MAX(seq), COALESCE(CAST(SUM(CASE WHEN dry = 0 THEN amount_usd_e6 ELSE 0 END) AS BIGINT), 0)
FROM wallet_ledger WHERE owner = :owner AND deployment = :deployment AND seq > :after AND seq <= :until;

-- name: newest_balance
-- The last balance of a deployment.
SELECT seq, balance_usd_e6 FROM wallet_ledger
WHERE owner = :owner AND deployment = :deployment ORDER BY seq DESC, line DESC LIMIT 1;

-- name: trade_totals_after
-- Trades of a deployment that ended after one sequence number and by another: the newest end, how many, how many won,
-- and their summed results. All of it stands in an index.
SELECT
    MAX(exit_seq),
    COUNT(*),
    COALESCE(SUM(CASE WHEN realised_usd_e6 - fees_usd_e6 + funding_usd_e6 > 0 THEN 1 ELSE 0 END), 0),
    COALESCE(CAST(SUM(realised_usd_e6) AS BIGINT), 0),
    COALESCE(CAST(SUM(fees_usd_e6) AS BIGINT), 0),
    COALESCE(CAST(SUM(funding_usd_e6) AS BIGINT), 0)
FROM trade_history
WHERE owner = :owner AND deployment = :deployment AND exit_seq > :after AND exit_seq <= :until;
