-- A gap that grows or is filled gets a new version, so that a read of the past shows what was known of it then.
-- Of gaps recorded before, the newest extent is all there is; when they were found and filled is known of each.

ALTER TABLE tape_gaps RENAME TO tape_gaps_unversioned;

CREATE TABLE tape_gaps (
    source TEXT NOT NULL,
    channel TEXT NOT NULL,
    subject TEXT NOT NULL,
    from_ts BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    to_ts BIGINT NOT NULL,
    reason TEXT NOT NULL,
    found_at BIGINT NOT NULL,
    filled_at BIGINT,
    PRIMARY KEY (source, channel, subject, from_ts, seq)
) WITHOUT ROWID;

CREATE INDEX tape_gaps_seq ON tape_gaps (seq);

INSERT INTO tape_gaps (source, channel, subject, from_ts, seq, known_at, to_ts, reason, found_at, filled_at)
SELECT source, channel, subject, from_ts, found_seq, found_at, to_ts, reason, found_at, NULL FROM tape_gaps_unversioned
WHERE filled_seq IS NULL OR filled_seq > found_seq;

INSERT INTO tape_gaps (source, channel, subject, from_ts, seq, known_at, to_ts, reason, found_at, filled_at)
SELECT source, channel, subject, from_ts, filled_seq, filled_at, to_ts, reason, found_at, filled_at
FROM tape_gaps_unversioned WHERE filled_seq IS NOT NULL;

DROP TABLE tape_gaps_unversioned;
