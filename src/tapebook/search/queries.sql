-- name: newest
-- The newest version as of a sequence number.
SELECT seq FROM document_versions WHERE owner = :owner AND seq <= :seq ORDER BY seq DESC LIMIT 1;

-- name: versions
-- Versions after a sequence number and up to another, in order.
SELECT seq, scope, path, kind, sha256, known_at FROM document_versions
WHERE owner = :owner AND seq > :after AND seq <= :until ORDER BY seq LIMIT :most;

-- name: version
-- A document as of a sequence number.
SELECT seq, scope, path, kind, sha256, known_at FROM document_versions
WHERE owner = :owner AND scope = :scope AND path = :path AND seq <= :seq ORDER BY seq DESC LIMIT 1;

-- name: version_of_hash
-- The newest version of a document with a hash, as of a sequence number.
SELECT seq, scope, path, kind, sha256, known_at FROM document_versions
WHERE owner = :owner AND scope = :scope AND path = :path AND seq <= :seq AND sha256 = :sha256
ORDER BY seq DESC LIMIT 1;

-- name: files
-- The newest version of every document that is a file; those that were removed have no hash.
SELECT v.seq, v.scope, v.path, v.kind, v.sha256, v.known_at FROM document_versions v
WHERE v.owner = :owner AND v.origin = 'file' AND NOT EXISTS (
    SELECT 1 FROM document_versions later
    WHERE later.owner = v.owner AND later.scope = v.scope AND later.path = v.path AND later.seq > v.seq
)
ORDER BY v.path, v.scope;

-- name: kinds
-- How many documents there are now, by kind.
SELECT v.kind, COUNT(*) FROM document_versions v
WHERE v.owner = :owner AND v.sha256 <> '' AND NOT EXISTS (
    SELECT 1 FROM document_versions later
    WHERE later.owner = v.owner AND later.scope = v.scope AND later.path = v.path AND later.seq > v.seq
)
GROUP BY v.kind ORDER BY v.kind;

-- name: unwritten
-- Entries whose file has no version after them: they may not be in it yet. Oldest first.
SELECT e.entry_id, e.agent, e.what, e.path, e.sha256, e.written_by, e.run_id, e.happened_at FROM document_entries e
WHERE e.owner = :owner AND e.seq > :after AND NOT EXISTS (
    SELECT 1 FROM document_versions v
    WHERE v.owner = e.owner AND v.scope = e.agent AND v.path = e.path AND v.seq > e.seq
)
ORDER BY e.seq;

-- name: entry_count
-- How many entries of a kind an agent has from a time.
SELECT COUNT(*) FROM document_entries
WHERE owner = :owner AND agent = :agent AND what = :what AND happened_at >= :since AND happened_at < :until;

-- name: entry
-- One entry.
SELECT entry_id, agent, what, path, sha256, written_by, run_id, happened_at FROM document_entries
WHERE owner = :owner AND entry_id = :entry_id;

-- name: writes
-- Everything that was written by way of the policy up to a moment, newest first.
SELECT * FROM (
    SELECT seq, known_at, what AS kind, agent, written_by, run_id, sha256, path AS place FROM document_entries
    WHERE owner = :owner
    UNION ALL
    SELECT seq, known_at, 'proposal', agent, written_by, run_id, sha256, proposal_id FROM manual_proposals
    WHERE owner = :owner
    UNION ALL
    SELECT seq, decided_at, 'manual', agent, decided_by, run_id, sha256, 'version ' || version FROM manual_proposals
    WHERE owner = :owner AND status = 'approved'
) written
WHERE (:agent = '' OR agent = :agent) AND known_at <= :as_of
ORDER BY known_at DESC, seq DESC LIMIT :most;

-- name: folders
-- Every folder outside the workspace; of two with a name, the later counts, and one without a place was removed.
SELECT name, place FROM document_folders WHERE owner = :owner ORDER BY seq;

-- name: proposal
-- One proposal.
SELECT proposal_id, agent, base_sha256, sha256, written_by, run_id, known_at, status, decided_by, decided_at, version
FROM manual_proposals WHERE owner = :owner AND proposal_id = :proposal_id;

-- name: proposals
-- Proposals of an agent, or (empty) of all, that were made by a moment, newest first.
SELECT proposal_id, agent, base_sha256, sha256, written_by, run_id, known_at, status, decided_by, decided_at, version
FROM manual_proposals WHERE owner = :owner AND (:agent = '' OR agent = :agent) AND known_at <= :as_of
ORDER BY seq DESC LIMIT :most;

-- name: mark
-- How far a stream was read, with the troubles that had not ended there.
SELECT until, troubles_json FROM document_marks
WHERE owner = :owner AND reader = :reader ORDER BY seq DESC LIMIT 1;

-- name: terms
-- How decisions searched as of a sequence number.
SELECT terms_json FROM document_terms WHERE owner = :owner AND seq <= :seq ORDER BY seq DESC LIMIT 1;
