-- name: head
-- The newest sequence whose words are indexed.
SELECT seq FROM index_head;

-- name: set_head
-- Moves the head.
UPDATE index_head SET seq = :seq;

-- name: scopes
-- Every scope with the number its rows are kept under.
SELECT scope, scope_id FROM scopes;

-- name: new_scope
-- Numbers a scope.
INSERT INTO scopes (scope_id, scope) VALUES (:scope_id, :scope);

-- name: kinds
-- Every kind of document with its number.
SELECT kind, kind_id FROM kinds;

-- name: new_kind
-- Numbers a kind.
INSERT INTO kinds (kind_id, kind) VALUES (:kind_id, :kind);

-- name: document
-- The number of a document.
SELECT document_id FROM documents WHERE scope_id = :scope_id AND path = :path;

-- name: newest_document
-- The highest number given to a document.
SELECT COALESCE(MAX(document_id), 0) FROM documents;

-- name: new_document
-- Numbers a document.
INSERT INTO documents (document_id, scope_id, path) VALUES (:document_id, :scope_id, :path);

-- name: new_body
-- A document has another body from a sequence on.
INSERT INTO bodies (document_id, seq, sha256) VALUES (:document_id, :seq, :sha256);

-- name: standing
-- The chunks of a document that stand, in the order of their rows, with the lines they stand on.
SELECT c.row_number, c.identity, p.start_line, p.end_line
FROM chunks c JOIN places p ON p.scope_id = c.scope_id AND p.row_number = c.row_number
WHERE c.document_id = :document_id AND c.stands = 1 AND p.seq = (
    SELECT MAX(seq) FROM places WHERE scope_id = c.scope_id AND row_number = c.row_number
)
ORDER BY c.row_number;

-- name: new_chunk
-- Keeps a chunk.
INSERT INTO chunks (scope_id, row_number, document_id, identity, stands, headings, text)
VALUES (:scope_id, :row_number, :document_id, :identity, :stands, :headings, :text);

-- name: end_chunk
-- A chunk stands no longer.
UPDATE chunks SET stands = 0 WHERE scope_id = :scope_id AND row_number = :row_number;

-- name: new_place
-- A chunk stands elsewhere from a sequence on.
INSERT INTO places (scope_id, row_number, seq, start_line, end_line)
VALUES (:scope_id, :row_number, :seq, :start_line, :end_line);

-- name: texts
-- The texts of some rows.
SELECT headings, text FROM chunks
WHERE scope_id = :scope_id AND row_number >= :first AND row_number < :end ORDER BY row_number;

-- name: found
-- All that is said of one chunk as of a sequence.
SELECT d.path, c.headings, c.text,
    (SELECT sha256 FROM bodies WHERE document_id = c.document_id AND seq <= :seq ORDER BY seq DESC LIMIT 1),
    p.start_line, p.end_line
FROM chunks c
JOIN documents d ON d.document_id = c.document_id
JOIN places p ON p.scope_id = c.scope_id AND p.row_number = c.row_number
WHERE c.scope_id = :scope_id AND c.row_number = :row_number AND p.seq = (
    SELECT MAX(seq) FROM places WHERE scope_id = :scope_id AND row_number = :row_number AND seq <= :seq
);

-- name: row_pages
-- Pages of rows that changed since a sequence.
SELECT page, packed FROM row_pages WHERE scope_id = :scope_id AND changed_seq > :since ORDER BY page;

-- name: put_row_page
-- Writes a page of rows.
INSERT INTO row_pages (scope_id, page, changed_seq, packed) VALUES (:scope_id, :page, :changed_seq, :packed)
ON CONFLICT (scope_id, page) DO UPDATE SET changed_seq = excluded.changed_seq, packed = excluded.packed;

-- name: postings
-- The postings of a term, page by page.
SELECT packed FROM postings WHERE scope_id = :scope_id AND term = :term AND page <= :last_page ORDER BY page;

-- name: add_postings
-- Appends postings to a page.
INSERT INTO postings (scope_id, term, page, packed) VALUES (:scope_id, :term, :page, :packed)
ON CONFLICT (scope_id, term, page) DO UPDATE SET packed = CAST(packed || excluded.packed AS BLOB);

-- name: models
-- The models of a name, the newest first.
SELECT model_id, dimension FROM models WHERE name = :name ORDER BY model_id DESC;

-- name: another_model
-- Any model but this one.
SELECT model_id FROM models WHERE model_id <> :model_id LIMIT 1;

-- name: new_model
-- Numbers a model.
INSERT INTO models (name, dimension) VALUES (:name, :dimension);

-- name: embedded
-- How many rows of a scope have vectors.
SELECT row_count FROM embedded WHERE model_id = :model_id AND scope_id = :scope_id;

-- name: waiting
-- The sequence of the first row without a vector, of all scopes: where the row behind those that have one begins.
SELECT MIN(first_seq) FROM (
    SELECT (
        SELECT MIN(p.seq) FROM places p WHERE p.scope_id = s.scope_id AND p.row_number = COALESCE((
            SELECT e.row_count FROM embedded e WHERE e.model_id = :model_id AND e.scope_id = s.scope_id
        ), 0)
    ) AS first_seq
    FROM scopes s
);

-- name: set_embedded
-- Says how many rows of a scope have vectors.
INSERT INTO embedded (model_id, scope_id, row_count) VALUES (:model_id, :scope_id, :row_count)
ON CONFLICT (model_id, scope_id) DO UPDATE SET row_count = excluded.row_count;

-- name: vector_pages
-- Vectors of a scope from a page on.
SELECT packed FROM vector_pages WHERE model_id = :model_id AND scope_id = :scope_id AND page >= :page ORDER BY page;

-- name: add_vectors
-- Appends vectors to a page.
INSERT INTO vector_pages (model_id, scope_id, page, packed) VALUES (:model_id, :scope_id, :page, :packed)
ON CONFLICT (model_id, scope_id, page) DO UPDATE SET packed = CAST(packed || excluded.packed AS BLOB);

-- name: forget_vectors
-- Drops the vectors of other models.
DELETE FROM vector_pages WHERE model_id <> :model_id;

-- name: forget_embedded
-- Drops what is said of the vectors of other models.
DELETE FROM embedded WHERE model_id <> :model_id;

-- name: forget_questions
-- Drops the questions of other models.
DELETE FROM questions WHERE model_id <> :model_id;

-- name: forget_models
-- Drops other models.
DELETE FROM models WHERE model_id <> :model_id;

-- name: question
-- The vector of a question that was asked before.
SELECT packed FROM questions WHERE model_id = :model_id AND sha256 = :sha256;

-- name: keep_question
-- Remembers the vector of a question.
INSERT INTO questions (model_id, sha256, packed) VALUES (:model_id, :sha256, :packed)
ON CONFLICT (model_id, sha256) DO NOTHING;

-- name: documents_standing
-- How many documents have a body.
SELECT COUNT(*) FROM documents d WHERE '' <> (
    SELECT sha256 FROM bodies WHERE document_id = d.document_id ORDER BY seq DESC LIMIT 1
);

-- name: chunks_standing
-- How many chunks can be found, and how many are kept.
SELECT COALESCE(SUM(stands), 0), COUNT(*) FROM chunks;

-- name: size
-- The size of the file.
SELECT p.page_count * s.page_size FROM pragma_page_count() AS p, pragma_page_size() AS s;
