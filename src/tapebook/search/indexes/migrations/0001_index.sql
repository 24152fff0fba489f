-- The index of documents: derived from their versions, and made anew from them whenever it is gone.

CREATE TABLE index_head (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL
);
INSERT INTO index_head (one, seq) VALUES (1, 0);

-- Rows are counted within a scope: nothing of one scope is read to search another.
CREATE TABLE scopes (
    scope_id INTEGER PRIMARY KEY,
    scope TEXT NOT NULL UNIQUE
);

CREATE TABLE kinds (
    kind_id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL UNIQUE
);

CREATE TABLE documents (
    document_id INTEGER PRIMARY KEY,
    scope_id INTEGER NOT NULL,
    path TEXT NOT NULL,
    UNIQUE (scope_id, path)
);

-- The body of a document from a sequence on; an empty hash says that it was removed.
CREATE TABLE bodies (
    document_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (document_id, seq)
) WITHOUT ROWID;

CREATE TABLE chunks (
    chunk_id INTEGER PRIMARY KEY,
    scope_id INTEGER NOT NULL,
    row_number INTEGER NOT NULL,
    document_id INTEGER NOT NULL,
    identity BLOB NOT NULL,
    stands INTEGER NOT NULL,
    headings TEXT NOT NULL,
    text TEXT NOT NULL,
    UNIQUE (scope_id, row_number)
);
CREATE INDEX chunks_standing ON chunks (document_id) WHERE stands = 1;

-- Where a chunk stands from a sequence on: lines above it come and go.
CREATE TABLE places (
    scope_id INTEGER NOT NULL,
    row_number INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    PRIMARY KEY (scope_id, row_number, seq)
) WITHOUT ROWID;

-- Rows as arrays; `changed_seq` lets whoever has read them read only what is new.
CREATE TABLE row_pages (
    scope_id INTEGER NOT NULL,
    page INTEGER NOT NULL,
    changed_seq INTEGER NOT NULL,
    packed BLOB NOT NULL,
    PRIMARY KEY (scope_id, page)
);

CREATE TABLE postings (
    scope_id INTEGER NOT NULL,
    term TEXT NOT NULL,
    page INTEGER NOT NULL,
    packed BLOB NOT NULL,
    PRIMARY KEY (scope_id, term, page)
) WITHOUT ROWID;

CREATE TABLE models (
    model_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    UNIQUE (name, dimension)
);

-- How many rows of a scope have vectors of a model.
CREATE TABLE embedded (
    model_id INTEGER NOT NULL,
    scope_id INTEGER NOT NULL,
    row_count INTEGER NOT NULL,
    PRIMARY KEY (model_id, scope_id)
) WITHOUT ROWID;

CREATE TABLE vector_pages (
    model_id INTEGER NOT NULL,
    scope_id INTEGER NOT NULL,
    page INTEGER NOT NULL,
    packed BLOB NOT NULL,
    PRIMARY KEY (model_id, scope_id, page)
);

-- Vectors of questions a server was asked for, so that the same question has the same answer again.
CREATE TABLE questions (
    model_id INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    packed BLOB NOT NULL,
    PRIMARY KEY (model_id, sha256)
) WITHOUT ROWID;
