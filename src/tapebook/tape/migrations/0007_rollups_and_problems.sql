-- Hours of a symbol whose minutes have changed since its hourly bar was made; `seq` is the newest commit that did.
CREATE TABLE tape_unrolled_hours (
    symbol_id BIGINT NOT NULL,
    hour_ts BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (symbol_id, hour_ts)
) WITHOUT ROWID;

-- Which hours were made before their last minute is not known, so all minutes that are still here count.
INSERT INTO tape_unrolled_hours (symbol_id, hour_ts, seq)
SELECT symbol_id, bucket_ts - bucket_ts % 3600000, MAX(seq) FROM hyperliquid_candles
WHERE granularity_sec = 60 AND seq NOT IN (SELECT seq FROM tape_commits WHERE known_basis = 'assumed')
GROUP BY symbol_id, bucket_ts - bucket_ts % 3600000;

-- What went wrong on the way to the tape: of every subject the newest case, and how often it happened.
CREATE TABLE tape_problems (
    source TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    said TEXT NOT NULL,
    times BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (source, kind, subject)
) WITHOUT ROWID;
