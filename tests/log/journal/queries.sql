-- name: add_entry
-- Writes the row of an entry.
INSERT INTO journal_entries (owner, deployment, seq, title, amount_e8, share, bytes, known_at)
VALUES (:owner, :deployment, :seq, :title, :amount_e8, :share, :bytes, :known_at);

-- name: add_tag
-- Writes one tag of an entry.
INSERT INTO journal_tags (owner, deployment, tag) VALUES (:owner, :deployment, :tag);

-- name: settle_entry
-- Marks an entry as settled.
UPDATE journal_entries SET settled_seq = :settled_seq
WHERE owner = :owner AND deployment = :deployment AND seq = :seq;
