-- Who may call the servers of a home, and what they were answered. Of a token only its hash is kept.
CREATE TABLE tokens (
    token_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    scopes TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);

-- A name is free again once its token is revoked.
CREATE UNIQUE INDEX tokens_name ON tokens (name) WHERE revoked_at IS NULL;

-- Writes that callers gave a key. `status` is null while one is under way in the process `holder`.
CREATE TABLE keyed_writes (
    token_id TEXT NOT NULL,
    write_key TEXT NOT NULL,
    request_sha256 TEXT NOT NULL,
    holder TEXT NOT NULL,
    begun_at BIGINT NOT NULL,
    status BIGINT,
    body BLOB,
    PRIMARY KEY (token_id, write_key)
);

CREATE INDEX keyed_writes_begun ON keyed_writes (begun_at);
