-- name: values
-- Every key of a timeframe with the value it had as of a sequence number.
SELECT k.key, k.origin, (
    SELECT v.value FROM context_versions v
    WHERE v.owner = k.owner AND v.deployment = k.deployment AND v.layer = k.layer AND v.timeframe = k.timeframe
        AND v.key = k.key AND v.origin = k.origin AND v.seq <= :seq
    ORDER BY v.seq DESC LIMIT 1
), k.timeframe
FROM contexts k
WHERE k.owner = :owner AND k.deployment = :deployment AND k.layer = :layer AND k.timeframe = :timeframe
    AND k.created_seq <= :seq
ORDER BY k.key, k.origin;

-- name: newest
-- Every key of a layer with its newest timeframe from a first one on, and the value it had there.
SELECT k.key, k.origin, (
    SELECT v.value FROM context_versions v
    WHERE v.owner = k.owner AND v.deployment = k.deployment AND v.layer = k.layer AND v.timeframe = k.timeframe
        AND v.key = k.key AND v.origin = k.origin AND v.seq <= :seq
    ORDER BY v.seq DESC LIMIT 1
), k.timeframe
FROM contexts k JOIN (
    SELECT key, MAX(timeframe) AS timeframe FROM contexts
    WHERE owner = :owner AND deployment = :deployment AND layer = :layer AND timeframe >= :first_kept
        AND created_seq <= :seq
    GROUP BY key
) n ON n.key = k.key AND n.timeframe = k.timeframe
WHERE k.owner = :owner AND k.deployment = :deployment AND k.layer = :layer AND k.created_seq <= :seq
ORDER BY k.key, k.origin;

-- name: latest
-- The newest timeframe of a layer, between a first and a last one, that had a value as of a sequence number.
SELECT timeframe FROM contexts
WHERE owner = :owner AND deployment = :deployment AND layer = :layer AND timeframe >= :first_kept
    AND timeframe <= :last AND created_seq <= :seq
ORDER BY timeframe DESC LIMIT 1;

-- name: cutoff
-- The oldest timeframe of a layer that was kept as of a sequence number.
SELECT first_kept FROM context_cutoffs
WHERE owner = :owner AND deployment = :deployment AND layer = :layer AND seq <= :seq
ORDER BY seq DESC LIMIT 1;

-- name: keys_between
-- How many keys of a layer lie between two timeframes, the first included.
SELECT COUNT(*) FROM contexts
WHERE owner = :owner AND deployment = :deployment AND layer = :layer AND timeframe >= :first AND timeframe < :last
    AND created_seq <= :seq;

-- name: folds
-- The sums of a kind between two timeframes, both included.
SELECT timeframe, whole_json FROM context_folds
WHERE owner = :owner AND deployment = :deployment AND kind = :kind AND timeframe >= :first AND timeframe <= :last
ORDER BY timeframe;

-- name: marks
-- How far the trades of each deployment are in the layers.
SELECT source, until_seq FROM context_marks WHERE owner = :owner AND deployment = :deployment;

-- name: observed_days
-- The days somebody wrote sums of, after a sequence number.
SELECT DISTINCT timeframe FROM contexts
WHERE owner = :owner AND deployment = :deployment AND layer = :layer AND origin = 'observed'
    AND seq > :after AND seq <= :until
ORDER BY timeframe;
