-- How far a source has come with what takes it many questions: it goes on there after a restart. None of it is a fact of
-- the market, nothing is read of it as of a moment, and it is deleted when the source has delivered.
CREATE TABLE tape_source_progress (
    source TEXT NOT NULL,
    part BIGINT NOT NULL,
    state_json TEXT NOT NULL,
    PRIMARY KEY (source, part)
) WITHOUT ROWID;
