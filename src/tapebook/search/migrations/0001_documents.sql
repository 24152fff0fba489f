-- Projections of the owner's stream of documents. Rows are versions or facts; only a proposal is decided later.

-- One row per version of a document; an empty hash says that it was removed.
CREATE TABLE document_versions (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    scope TEXT NOT NULL,
    path TEXT NOT NULL,
    kind TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    size BIGINT NOT NULL,
    origin TEXT NOT NULL,
    trust TEXT NOT NULL,
    known_at BIGINT NOT NULL,
    PRIMARY KEY (owner, seq)
) WITHOUT ROWID;

CREATE INDEX document_versions_path ON document_versions (owner, scope, path, seq);
CREATE INDEX document_versions_origin ON document_versions (owner, origin, seq);

-- What was appended to agents' files, by whom, and in which run.
CREATE TABLE document_entries (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    entry_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    what TEXT NOT NULL,
    path TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    written_by TEXT NOT NULL,
    run_id TEXT NOT NULL,
    happened_at BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    PRIMARY KEY (owner, seq)
) WITHOUT ROWID;

CREATE UNIQUE INDEX document_entries_id ON document_entries (owner, entry_id);
CREATE INDEX document_entries_time ON document_entries (owner, agent, what, happened_at);

-- Folders outside the workspace.
CREATE TABLE document_folders (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    name TEXT NOT NULL,
    place TEXT NOT NULL,
    PRIMARY KEY (owner, seq)
) WITHOUT ROWID;

-- Manuals that were proposed, and what their owner said.
CREATE TABLE manual_proposals (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    proposal_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    base_sha256 TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    written_by TEXT NOT NULL,
    run_id TEXT NOT NULL,
    known_at BIGINT NOT NULL,
    status TEXT NOT NULL,
    decided_by TEXT NOT NULL,
    decided_at BIGINT,
    version BIGINT NOT NULL,
    PRIMARY KEY (owner, proposal_id)
) WITHOUT ROWID;

-- How far each stream of the log was read, with the troubles that had not ended there.
CREATE TABLE document_marks (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    reader TEXT NOT NULL,
    seq BIGINT NOT NULL,
    until BIGINT NOT NULL,
    troubles_json TEXT NOT NULL,
    PRIMARY KEY (owner, reader, seq)
) WITHOUT ROWID;

-- How decisions search.
CREATE TABLE document_terms (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    terms_json TEXT NOT NULL,
    PRIMARY KEY (owner, seq)
) WITHOUT ROWID;
