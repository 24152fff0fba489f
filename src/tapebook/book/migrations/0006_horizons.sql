-- How far the owner's own stream was read for a decision: what an owner writes for every agent.
ALTER TABLE decision_runs ADD COLUMN curated_seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE work ADD COLUMN curated_seq BIGINT;

-- For the trades of a day.
CREATE INDEX trade_history_exit ON trade_history (owner, deployment, exit_tick_at);
