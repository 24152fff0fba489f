-- Checksums of what the tape holds, so that a changed or lost row is found (`seals.py`). Of a family there is one for each
-- chunk, of the other tables one for each. `seq` is the newest commit in it.
CREATE TABLE tape_seals (
    table_name TEXT NOT NULL,
    granularity_sec BIGINT NOT NULL,
    chunk BIGINT NOT NULL,
    rows_sealed BIGINT NOT NULL,
    digest TEXT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (table_name, granularity_sec, chunk)
) WITHOUT ROWID;

-- Commits up to this one were written before there were checksums: their rows may be without.
INSERT INTO tape_seals (table_name, granularity_sec, chunk, rows_sealed, digest, seq)
SELECT '', 0, 0, 0, '', COALESCE(MAX(seq), 0) FROM tape_commits;

-- The checksum of a commit's own row.
ALTER TABLE tape_commits ADD COLUMN checksum BIGINT;
