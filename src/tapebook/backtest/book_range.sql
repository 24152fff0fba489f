-- name: runs
-- The decisions between two sequence numbers, in their order: who asked for each, and the hash of what it was told.
SELECT run_trigger, packet_sha256 FROM decision_runs
WHERE owner = :owner AND deployment = :deployment AND seq > :after AND seq <= :until ORDER BY seq;

-- name: snapshots
-- What the account was worth whenever it was valued.
SELECT seq, happened_at, equity_usd_e6 FROM portfolio_snapshots
WHERE owner = :owner AND deployment = :deployment AND seq > :after AND seq <= :until ORDER BY seq;

-- name: balances
-- Cash after every line of the ledger.
SELECT seq, happened_at, balance_usd_e6 FROM wallet_ledger
WHERE owner = :owner AND deployment = :deployment AND seq > :after AND seq <= :until ORDER BY seq, line;

-- name: spans
-- The trades that were open at any time between two sequence numbers: from when to when.
-- Two parts, each by an index: with OR between them the planner reads every trade there ever was.
SELECT entry_seq, entry_tick_at, exit_seq, exit_tick_at FROM trade_history
WHERE owner = :owner AND deployment = :deployment AND exit_seq > :after AND entry_seq <= :until
UNION ALL
SELECT entry_seq, entry_tick_at, exit_seq, exit_tick_at FROM trade_history
WHERE owner = :owner AND deployment = :deployment AND exit_seq IS NULL AND entry_seq <= :until
ORDER BY entry_seq;

-- name: ended
-- The trades that ended between two sequence numbers, oldest exit first, each with who decided its entry.
SELECT
    t.id, t.symbol, t.side, t.entry_tick_at, t.entry_mark_e8, t.entry_leverage, t.entry_reason, t.entry_run_id,
    t.entry_regime_tag, t.entry_lessons_hash, t.entered_e8, t.entered_usd_e6, t.funded_until, t.exited_e8,
    t.exited_usd_e6, t.realised_usd_e6, t.fees_usd_e6, t.funding_usd_e6, t.mfe_usd_e6, t.mae_usd_e6,
    t.entry_usd_e6, t.entry_order_id,
    t.exit_tick_at, t.exit_reason, t.exit_run_id, r.engine
FROM trade_history t
LEFT JOIN decision_runs r ON r.run_id = t.entry_run_id
WHERE t.owner = :owner AND t.deployment = :deployment AND t.exit_seq > :after AND t.exit_seq <= :until
ORDER BY t.exit_seq;

-- name: fills
-- The fills between two sequence numbers, in the order of the log.
SELECT symbol, happened_at, signed_size_e8, price_e8 FROM fills
WHERE owner = :owner AND deployment = :deployment AND seq > :after AND seq <= :until ORDER BY seq;

-- name: insurance
-- What an insurance paid between two sequence numbers.
SELECT seq, happened_at, amount_usd_e6 FROM wallet_ledger
WHERE owner = :owner AND deployment = :deployment AND seq > :after AND seq <= :until AND kind = 'insurance'
ORDER BY seq, line;

-- name: first_posting_after
-- The first line of the ledger after a sequence number that happened after a moment, apart from what the account
-- began with: it may be dated after fills of the past. The index of times has all of it; the signs keep the planner
-- from walking along sequence numbers instead.
SELECT MIN(+seq) FROM wallet_ledger
WHERE
    owner = :owner AND deployment = :deployment AND happened_at > :moment AND +seq > :after AND +seq <= :until
    AND kind <> 'deposit';

-- name: first_snapshot_after
-- The first value of the account after a sequence number that was taken after a moment.
SELECT seq FROM portfolio_snapshots
WHERE owner = :owner AND deployment = :deployment AND happened_at > :moment AND seq > :after AND seq <= :until
ORDER BY seq LIMIT 1;
