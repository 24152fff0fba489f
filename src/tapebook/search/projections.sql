-- name: version
-- A version of a document, or its removal.
INSERT INTO document_versions (
    owner, deployment, seq, scope, path, kind, sha256, size, origin, trust, known_at
) VALUES (
    :owner, :deployment, :seq, :scope, :path, :kind, :sha256, :size, :origin, :trust, :known_at
);

-- name: entry
-- Words that were appended.
INSERT INTO document_entries (
    owner, deployment, seq, entry_id, agent, what, path, sha256, written_by, run_id, happened_at, known_at
) VALUES (
    :owner, :deployment, :seq, :entry_id, :agent, :what, :path, :sha256, :written_by, :run_id, :happened_at, :known_at
);

-- name: folder
-- A folder outside the workspace; one without a place was removed.
INSERT INTO document_folders (owner, deployment, seq, name, place)
VALUES (:owner, :deployment, :seq, :name, :place);

-- name: proposal
-- A manual that was proposed.
INSERT INTO manual_proposals (
    owner, deployment, seq, proposal_id, agent, base_sha256, sha256, written_by, run_id, known_at, status, decided_by,
    version
) VALUES (
    :owner, :deployment, :seq, :proposal_id, :agent, :base_sha256, :sha256, :written_by, :run_id, :known_at, 'open', '',
    0
);

-- name: decide
-- The owner's word on a proposal.
UPDATE manual_proposals
SET status = :status, decided_by = :decided_by, decided_at = :decided_at, version = :version
WHERE owner = :owner AND proposal_id = :proposal_id;

-- name: mark
-- How far a stream was read.
INSERT INTO document_marks (owner, deployment, reader, seq, until, troubles_json)
VALUES (:owner, :deployment, :reader, :seq, :until, :troubles_json);

-- name: terms
-- How decisions search from now on.
INSERT INTO document_terms (owner, deployment, seq, terms_json)
VALUES (:owner, :deployment, :seq, :terms_json);
