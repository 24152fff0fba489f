-- Commits at which the clock was found to have gone back: rows of earlier commits that count as known later than that were
-- stamped by a clock that was ahead, and whoever reads up to such a commit does not see them any more.
CREATE TABLE tape_set_backs (
    seq BIGINT NOT NULL,
    known_before BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    PRIMARY KEY (seq)
) WITHOUT ROWID;
