-- Who may write a stream now. A row stays when its holder leaves, so that epochs only grow.
CREATE TABLE leases (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    holder TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    beat BIGINT NOT NULL,
    PRIMARY KEY (owner, deployment)
) WITHOUT ROWID;

CREATE INDEX leases_held ON leases (holder) WHERE holder <> '';
