-- Midpoints lie in chunks of four buckets; they had twenty. What was archived before lies in objects that now hold the
-- rows of several chunks, each of which names the object.
UPDATE hyperliquid_mid_prices SET chunk = bucket_ts / 20000;

-- The new numbers are negative until the old ones are gone, for both are numbers of chunks.
INSERT INTO tape_archived (table_name, granularity_sec, chunk, archive_key, rows_moved)
SELECT table_name, granularity_sec, -1 - (chunk * 5 + part), archive_key, CASE WHEN part = 0 THEN rows_moved ELSE 0 END
FROM tape_archived
JOIN (SELECT 0 AS part UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) AS parts ON TRUE
WHERE table_name = 'hyperliquid_mid_prices';

DELETE FROM tape_archived WHERE chunk >= 0 AND table_name = 'hyperliquid_mid_prices';

UPDATE tape_archived SET chunk = -1 - chunk WHERE chunk < 0;
