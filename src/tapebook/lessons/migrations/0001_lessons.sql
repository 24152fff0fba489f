-- One row per reflection: the newest note of a deployment is active, older ones are superseded, and one that came to
-- nothing is refused and says why.
CREATE TABLE reflection_notes (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    id TEXT NOT NULL,
    agent TEXT NOT NULL,
    agent_version BIGINT NOT NULL,
    status TEXT NOT NULL,
    superseded_seq BIGINT,
    generated_at BIGINT NOT NULL,
    window_start BIGINT NOT NULL,
    window_end BIGINT NOT NULL,
    trades_considered BIGINT NOT NULL,
    lessons_text TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    model_used TEXT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_usd_e6 BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    problem TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;

CREATE UNIQUE INDEX reflection_notes_active ON reflection_notes (owner, deployment) WHERE status = 'active';
