-- name: current
-- The newest value of a key; when it was first written stays.
INSERT INTO contexts (
    owner, deployment, layer, timeframe, key, origin, value, created_at, updated_at, created_seq, seq
) VALUES (
    :owner, :deployment, :layer, :timeframe, :key, :origin, :value, :known_at, :known_at, :seq, :seq
)
ON CONFLICT (owner, deployment, layer, timeframe, key, origin) DO UPDATE
SET value = excluded.value, updated_at = excluded.updated_at, seq = excluded.seq;

-- name: version
-- One version of a value.
INSERT INTO context_versions (owner, deployment, layer, timeframe, key, origin, seq, value)
VALUES (:owner, :deployment, :layer, :timeframe, :key, :origin, :seq, :value);

-- name: fold
-- The newest sum of a day, a month or a year.
INSERT INTO context_folds (owner, deployment, kind, timeframe, seq, whole_json)
VALUES (:owner, :deployment, :kind, :timeframe, :seq, :whole_json)
ON CONFLICT (owner, deployment, kind, timeframe) DO UPDATE SET seq = excluded.seq, whole_json = excluded.whole_json;

-- name: mark
-- How far the trades of a deployment are in the layers.
INSERT INTO context_marks (owner, deployment, source, until_seq, seq)
VALUES (:owner, :deployment, :source, :until_seq, :seq)
ON CONFLICT (owner, deployment, source) DO UPDATE SET until_seq = excluded.until_seq, seq = excluded.seq;

-- name: cutoff
-- From here on, older timeframes of a layer are gone.
INSERT INTO context_cutoffs (owner, deployment, layer, seq, first_kept)
VALUES (:owner, :deployment, :layer, :seq, :first_kept);
