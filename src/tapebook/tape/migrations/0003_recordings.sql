-- Raw payloads, when the settings ask for them: where a stretch of them lies in the archive.
CREATE TABLE tape_recordings (
    from_ts BIGINT NOT NULL,
    archive_key TEXT NOT NULL,
    to_ts BIGINT NOT NULL,
    payloads BIGINT NOT NULL,
    PRIMARY KEY (from_ts, archive_key)
) WITHOUT ROWID;
