-- Where this book was restored from a backup: anchors after `to_anchor` up to `until_anchor` name what was lost. No
-- projection: it is no part of what was decided.
CREATE TABLE log_restores (
    until_anchor BIGINT NOT NULL,
    to_anchor BIGINT NOT NULL,
    restored_at BIGINT NOT NULL,
    PRIMARY KEY (until_anchor, to_anchor)
) WITHOUT ROWID;
