-- Answers of models by what was asked: operational, not a projection. A row may go once its run is recorded.
CREATE TABLE kept_replies (
    owner TEXT NOT NULL,
    reply_key TEXT NOT NULL,
    deployment TEXT NOT NULL,
    run_id TEXT NOT NULL,
    cost_usd_e6 BIGINT NOT NULL,
    answer_json TEXT NOT NULL,
    kept_at BIGINT NOT NULL,
    PRIMARY KEY (owner, reply_key)
) WITHOUT ROWID;

CREATE INDEX kept_replies_paid ON kept_replies (owner, deployment, kept_at) WHERE cost_usd_e6 > 0;
