-- name: head
-- The newest commit.
SELECT seq, known_at FROM tape_commits ORDER BY seq DESC LIMIT 1;

-- name: first_commit
-- When the oldest commit was known.
SELECT known_at FROM tape_commits ORDER BY seq LIMIT 1;

-- name: commit
-- Remembers a commit.
INSERT INTO tape_commits (seq, known_at, rows_written) VALUES (:seq, :known_at, :rows_written);

-- name: rows_written
-- How many rows all commits wrote.
SELECT COALESCE(CAST(SUM(rows_written) AS BIGINT), 0) FROM tape_commits;

-- name: seq_as_of
-- The newest commit known at a moment.
SELECT seq FROM tape_commits WHERE known_at <= :as_of ORDER BY known_at DESC, seq DESC LIMIT 1;

-- name: symbols
-- Every symbol with a midpoint or a candle. Found by stepping through the key, not by reading all rows.
WITH RECURSIVE seen (symbol) AS (
    SELECT MIN(symbol) FROM hyperliquid_candles
    UNION ALL
    SELECT (SELECT MIN(c.symbol) FROM hyperliquid_candles c WHERE c.symbol > seen.symbol) FROM seen WHERE seen.symbol IS NOT NULL
)
SELECT symbol FROM seen WHERE symbol IS NOT NULL;

-- name: mids_between
-- A symbol's midpoints from one moment to another, oldest first, every revision known.
SELECT symbol, bucket_ts, price_e8 FROM hyperliquid_mid_prices
WHERE symbol = :symbol AND bucket_ts >= :since AND bucket_ts <= :until AND seq <= :watermark AND known_at <= :as_of
ORDER BY bucket_ts, revision LIMIT :most;

-- name: candles_between
-- A symbol's bars from one moment to another, oldest first, every revision known.
SELECT symbol, granularity_sec, bucket_ts, open_e8, high_e8, low_e8, close_e8, volume_base, volume_quote_usd, sample_count
FROM hyperliquid_candles
WHERE symbol = :symbol AND granularity_sec = :granularity_sec AND bucket_ts >= :since AND bucket_ts < :before
    AND seq <= :watermark AND known_at <= :as_of
ORDER BY bucket_ts, revision;

-- name: add_mid
-- Adds a midpoint; a revision that exists is left alone and nothing comes back.
INSERT INTO hyperliquid_mid_prices (
    symbol, bucket_ts, price_e8, revision, known_at, seq
) VALUES (
    :symbol, :bucket_ts, :price_e8, :revision, :known_at, :seq
)
ON CONFLICT (symbol, bucket_ts, revision) DO NOTHING
RETURNING revision;

-- name: same_mid
-- The newest revision of a midpoint.
SELECT revision, symbol, bucket_ts, price_e8 FROM hyperliquid_mid_prices
WHERE symbol = :symbol AND bucket_ts = :bucket_ts ORDER BY revision DESC LIMIT 1;

-- name: newest_mid
-- The newest midpoint as of a moment and a watermark.
SELECT symbol, bucket_ts, price_e8 FROM hyperliquid_mid_prices
WHERE symbol = :symbol AND bucket_ts <= :as_of AND seq <= :watermark AND known_at <= :as_of
ORDER BY bucket_ts DESC, revision DESC LIMIT 1;

-- name: add_candle
-- Adds a candle; a revision that exists is left alone and nothing comes back.
INSERT INTO hyperliquid_candles (
    symbol, granularity_sec, bucket_ts, open_e8, high_e8, low_e8, close_e8, volume_base, volume_quote_usd,
    sample_count, revision, known_at, seq
) VALUES (
    :symbol, :granularity_sec, :bucket_ts, :open_e8, :high_e8, :low_e8, :close_e8, :volume_base,
    :volume_quote_usd, :sample_count, :revision, :known_at, :seq
)
ON CONFLICT (symbol, granularity_sec, bucket_ts, revision) DO NOTHING
RETURNING revision;

-- name: same_candle
-- The newest revision of a candle.
SELECT revision, symbol, granularity_sec, bucket_ts, open_e8, high_e8, low_e8, close_e8, volume_base, volume_quote_usd, sample_count FROM hyperliquid_candles
WHERE symbol = :symbol AND granularity_sec = :granularity_sec AND bucket_ts = :bucket_ts ORDER BY revision DESC LIMIT 1;

-- name: add_liquidity
-- Adds a liquidity profile; a revision that exists is left alone and nothing comes back.
INSERT INTO hyperliquid_liquidity_profiles (
    symbol, bucket_ts, mid_e8, spread_bps, depth_usd_10bps, depth_usd_50bps, depth_usd_100bps, imbalance,
    revision, known_at, seq
) VALUES (
    :symbol, :bucket_ts, :mid_e8, :spread_bps, :depth_usd_10bps, :depth_usd_50bps, :depth_usd_100bps,
    :imbalance, :revision, :known_at, :seq
)
ON CONFLICT (symbol, bucket_ts, revision) DO NOTHING
RETURNING revision;

-- name: same_liquidity
-- The newest revision of a liquidity profile.
SELECT revision, symbol, bucket_ts, mid_e8, spread_bps, depth_usd_10bps, depth_usd_50bps, depth_usd_100bps, imbalance FROM hyperliquid_liquidity_profiles
WHERE symbol = :symbol AND bucket_ts = :bucket_ts ORDER BY revision DESC LIMIT 1;

-- name: newest_liquidity
-- The newest liquidity profile as of a moment and a watermark.
SELECT symbol, bucket_ts, mid_e8, spread_bps, depth_usd_10bps, depth_usd_50bps, depth_usd_100bps, imbalance FROM hyperliquid_liquidity_profiles
WHERE symbol = :symbol AND bucket_ts <= :as_of AND seq <= :watermark AND known_at <= :as_of
ORDER BY bucket_ts DESC, revision DESC LIMIT 1;

-- name: add_context
-- Adds a asset context; a revision that exists is left alone and nothing comes back.
INSERT INTO hyperliquid_asset_contexts (
    symbol, bucket_ts, funding_e12, premium_e12, open_interest_base, mark_e8, oracle_e8, revision, known_at,
    seq
) VALUES (
    :symbol, :bucket_ts, :funding_e12, :premium_e12, :open_interest_base, :mark_e8, :oracle_e8, :revision,
    :known_at, :seq
)
ON CONFLICT (symbol, bucket_ts, revision) DO NOTHING
RETURNING revision;

-- name: same_context
-- The newest revision of a asset context.
SELECT revision, symbol, bucket_ts, funding_e12, premium_e12, open_interest_base, mark_e8, oracle_e8 FROM hyperliquid_asset_contexts
WHERE symbol = :symbol AND bucket_ts = :bucket_ts ORDER BY revision DESC LIMIT 1;

-- name: newest_context
-- The newest asset context as of a moment and a watermark.
SELECT symbol, bucket_ts, funding_e12, premium_e12, open_interest_base, mark_e8, oracle_e8 FROM hyperliquid_asset_contexts
WHERE symbol = :symbol AND bucket_ts <= :as_of AND seq <= :watermark AND known_at <= :as_of
ORDER BY bucket_ts DESC, revision DESC LIMIT 1;

-- name: add_funding
-- Adds a settled funding rate; a revision that exists is left alone and nothing comes back.
INSERT INTO hyperliquid_funding_rates (
    symbol, bucket_ts, rate_e12, premium_e12, revision, known_at, seq
) VALUES (
    :symbol, :bucket_ts, :rate_e12, :premium_e12, :revision, :known_at, :seq
)
ON CONFLICT (symbol, bucket_ts, revision) DO NOTHING
RETURNING revision;

-- name: same_funding
-- The newest revision of a settled funding rate.
SELECT revision, symbol, bucket_ts, rate_e12, premium_e12 FROM hyperliquid_funding_rates
WHERE symbol = :symbol AND bucket_ts = :bucket_ts ORDER BY revision DESC LIMIT 1;

-- name: newest_funding
-- The newest settled funding rate as of a moment and a watermark.
SELECT symbol, bucket_ts, rate_e12, premium_e12 FROM hyperliquid_funding_rates
WHERE symbol = :symbol AND bucket_ts <= :as_of AND seq <= :watermark AND known_at <= :as_of
ORDER BY bucket_ts DESC, revision DESC LIMIT 1;

