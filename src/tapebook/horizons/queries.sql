-- name: values
-- Every key of a timeframe with the value it had as of a sequence number; none when a cleanup had dropped it by then.
SELECT k.key, k.origin, (
    SELECT v.value FROM context_versions v
    WHERE v.owner = k.owner AND v.deployment = k.deployment AND v.layer = k.layer AND v.timeframe = k.timeframe
        AND v.key = k.key AND v.origin = k.origin AND v.seq <= :seq
    ORDER BY v.seq DESC LIMIT 1
), k.timeframe
FROM context_keys k
WHERE k.owner = :owner AND k.deployment = :deployment AND k.layer = :layer AND k.timeframe = :timeframe
    AND k.seq <= :seq AND k.timeframe >= COALESCE((
        SELECT c.first_kept FROM context_cutoffs c
        WHERE c.owner = :owner AND c.deployment = :deployment AND c.layer = :layer AND c.seq <= :seq
        ORDER BY c.seq DESC LIMIT 1
    ), '')
ORDER BY k.key, k.origin;

-- name: newest
-- Every key of a layer with its newest timeframe from a first one on, and the value it had there.
SELECT k.key, k.origin, (
    SELECT v.value FROM context_versions v
    WHERE v.owner = k.owner AND v.deployment = k.deployment AND v.layer = k.layer AND v.timeframe = k.timeframe
        AND v.key = k.key AND v.origin = k.origin AND v.seq <= :seq
    ORDER BY v.seq DESC LIMIT 1
), k.timeframe
FROM context_keys k JOIN (
    SELECT key, MAX(timeframe) AS timeframe FROM context_keys
    WHERE owner = :owner AND deployment = :deployment AND layer = :layer AND timeframe >= :first_kept AND seq <= :seq
    GROUP BY key
) n ON n.key = k.key AND n.timeframe = k.timeframe
WHERE k.owner = :owner AND k.deployment = :deployment AND k.layer = :layer AND k.seq <= :seq
ORDER BY k.key, k.origin;

-- name: latest
-- The newest timeframe of a layer up to a last one that was kept and had a value as of a sequence number; of one origin
-- when asked.
SELECT timeframe FROM context_keys
WHERE owner = :owner AND deployment = :deployment AND layer = :layer AND timeframe >= COALESCE((
        SELECT c.first_kept FROM context_cutoffs c
        WHERE c.owner = :owner AND c.deployment = :deployment AND c.layer = :layer AND c.seq <= :seq
        ORDER BY c.seq DESC LIMIT 1
    ), '')
    AND timeframe <= :last AND seq <= :seq AND (:origin = '' OR origin = :origin)
ORDER BY timeframe DESC LIMIT 1;

-- name: timeframes
-- Every timeframe of a layer from a first one on that had a value as of a sequence number, newest first.
SELECT DISTINCT timeframe FROM context_keys
WHERE owner = :owner AND deployment = :deployment AND layer = :layer AND timeframe >= :first_kept AND seq <= :seq
ORDER BY timeframe DESC;

-- name: changed
-- When something of a scope was last written as of a sequence number.
SELECT seq FROM context_changes
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq DESC LIMIT 1;

-- name: cutoff
-- The oldest timeframe of a layer that was kept as of a sequence number.
SELECT first_kept FROM context_cutoffs
WHERE owner = :owner AND deployment = :deployment AND layer = :layer AND seq <= :seq
ORDER BY seq DESC LIMIT 1;

-- name: keys_between
-- How many keys of a layer lie between two timeframes, the first included.
SELECT COUNT(*) FROM context_keys
WHERE owner = :owner AND deployment = :deployment AND layer = :layer AND timeframe >= :first AND timeframe < :last
    AND seq <= :seq;

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
SELECT DISTINCT timeframe FROM context_versions
WHERE owner = :owner AND deployment = :deployment AND layer = :layer AND origin = 'observed'
    AND seq > :after AND seq <= :until
ORDER BY timeframe;
