-- name: change
-- Something of a scope was written.
INSERT INTO context_changes (owner, deployment, seq) VALUES (:owner, :deployment, :seq);

-- name: key
-- A key that was not there before.
INSERT INTO context_keys (owner, deployment, layer, timeframe, key, origin, seq, known_at)
VALUES (:owner, :deployment, :layer, :timeframe, :key, :origin, :seq, :known_at)
ON CONFLICT (owner, deployment, layer, timeframe, key, origin) DO NOTHING;

-- name: version
-- One version of a value.
INSERT INTO context_versions (owner, deployment, layer, timeframe, key, origin, seq, known_at, value)
VALUES (:owner, :deployment, :layer, :timeframe, :key, :origin, :seq, :known_at, :value);

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
