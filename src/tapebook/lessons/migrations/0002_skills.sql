-- Notes that an owner promoted to a skill, in the owner's own stream (an empty deployment), and as copies in the streams
-- of the deployments that were told. The newest row of a skill counts; one without a text ends it.
CREATE TABLE skill_notes (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    skill TEXT NOT NULL,
    seq BIGINT NOT NULL,
    note_id TEXT NOT NULL,
    source TEXT NOT NULL,
    agent TEXT NOT NULL,
    happened_at BIGINT NOT NULL,
    lessons_text TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, skill, seq)
) WITHOUT ROWID;
