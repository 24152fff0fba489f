-- A version may be the end of its agent: the profile it had last, disabled.
ALTER TABLE agent_versions ADD COLUMN removed BIGINT NOT NULL DEFAULT 0;
