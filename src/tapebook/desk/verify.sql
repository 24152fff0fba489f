-- name: schema
-- The tables and indexes of a database of SQLite, as they were made.
SELECT type, name, COALESCE(sql, '') FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name;

-- name: work
-- Decisions that are due and not made yet.
SELECT owner, deployment, symbol, scheduled_for, run_trigger, branch, run_id, state, as_of, tape_seq, book_seq FROM work;

-- name: replies
-- Answers of models.
SELECT owner, reply_key, run_id, cost_usd_e6, answer_json FROM kept_replies;

-- name: packets
-- The packet of each run.
SELECT packet_key, 'packet of run ' || run_id, owner FROM decision_runs WHERE packet_key IS NOT NULL;

-- name: run_replies
-- The reply of each run.
SELECT reply_key, 'reply of run ' || run_id, owner FROM decision_runs WHERE reply_key IS NOT NULL;

-- name: reasonings
-- What models said beside their replies, and whose it is.
SELECT reason_key, 'reasoning of run ' || run_id, owner FROM decision_runs WHERE reason_key IS NOT NULL;

-- name: packs
-- Old events that left the book, and of which stream they are.
SELECT archive_key, 'events ' || first_seq || ' to ' || last_seq || ' of stream ' || owner || '/' || deployment, owner
FROM log_packs WHERE archive_key IS NOT NULL;

-- name: documents
-- The versions of documents.
SELECT sha256, 'document ' || path, owner FROM document_versions WHERE sha256 <> '';

-- name: entries
-- What was appended to documents.
SELECT sha256, 'document entry ' || entry_id, owner FROM document_entries;

-- name: proposed
-- Manuals that were proposed.
SELECT sha256, 'proposal ' || proposal_id, owner FROM manual_proposals;

-- name: proposed_for
-- The manuals they were proposed for.
SELECT base_sha256, 'manual before proposal ' || proposal_id, owner FROM manual_proposals;

-- name: chunks
-- Rows of the tape that left for the archive.
SELECT archive_key, 'rows of ' || table_name, '' FROM tape_archived;

-- name: recordings
-- Payloads as they came.
SELECT archive_key, 'payloads from ' || from_ts, '' FROM tape_recordings;
