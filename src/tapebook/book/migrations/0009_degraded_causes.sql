-- Why a run lacked something. Runs of before have none: their events do not tell it either.
ALTER TABLE decision_runs ADD COLUMN degraded_causes_json TEXT NOT NULL DEFAULT '[]';

-- Few runs have causes; those of the last day are asked for by `tapebook doctor`.
CREATE INDEX decision_runs_degraded ON decision_runs (owner, as_of) WHERE degraded_causes_json <> '[]';
