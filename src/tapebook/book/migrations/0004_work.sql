-- Decisions that are due and not made yet: the desk's to-do list, not a projection. A row goes with the run it becomes.
CREATE TABLE work (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    symbol TEXT NOT NULL,
    scheduled_for BIGINT NOT NULL,
    run_trigger TEXT NOT NULL,
    branch TEXT NOT NULL,
    run_id TEXT NOT NULL,
    state TEXT NOT NULL,
    as_of BIGINT,
    tape_seq BIGINT,
    book_seq BIGINT,
    docs_seq BIGINT,
    PRIMARY KEY (run_id)
) WITHOUT ROWID;

CREATE INDEX work_deployment ON work (owner, deployment, scheduled_for);
