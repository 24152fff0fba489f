-- name: add_token
-- A new token; gives a row unless its name is taken.
INSERT INTO tokens (token_id, name, owner, scopes, sha256, created_at)
VALUES (:token_id, :name, :owner, :scopes, :sha256, :created_at)
ON CONFLICT DO NOTHING RETURNING token_id;

-- name: tokens
-- Every token, newest first.
SELECT token_id, name, owner, scopes, created_at, revoked_at FROM tokens ORDER BY created_at DESC, token_id;

-- name: token
-- A token that may still be used, with its hash.
SELECT token_id, name, owner, scopes, created_at, revoked_at, sha256
FROM tokens WHERE token_id = :token_id AND revoked_at IS NULL;

-- name: has_tokens
-- Whether there is a token that may be used.
SELECT 1 FROM tokens WHERE revoked_at IS NULL LIMIT 1;

-- name: revoke
-- Ends a token by its name or its id; gives a row when there was one.
UPDATE tokens SET revoked_at = :at
WHERE revoked_at IS NULL AND (name = :name OR token_id = :name) RETURNING token_id;

-- name: begin_write
-- Takes a key for a write; gives a row unless it is taken.
INSERT INTO keyed_writes (token_id, write_key, request_sha256, holder, begun_at, write_id, moment)
VALUES (:token_id, :write_key, :request_sha256, :holder, :begun_at, :write_id, :moment)
ON CONFLICT DO NOTHING RETURNING write_id, moment;

-- name: keyed_write
-- What is known of a key.
SELECT request_sha256, holder, status, body FROM keyed_writes WHERE token_id = :token_id AND write_key = :write_key;

-- name: take_over_write
-- Takes the key of a write that was cut, with its id and its moment; older versions stored neither.
UPDATE keyed_writes SET
    holder = :holder, begun_at = :begun_at, write_id = COALESCE(write_id, :write_id), moment = COALESCE(moment, :moment)
WHERE token_id = :token_id AND write_key = :write_key AND holder = :before AND status IS NULL
RETURNING write_id, moment;

-- name: leave_write
-- Lets the next attempt go on with a write that failed on the way.
UPDATE keyed_writes SET holder = '' WHERE token_id = :token_id AND write_key = :write_key AND status IS NULL;

-- name: finish_write
-- Keeps what a write was answered.
UPDATE keyed_writes SET status = :status, body = :body WHERE token_id = :token_id AND write_key = :write_key;

-- name: abandon_write
-- Frees the key of a write that did nothing.
DELETE FROM keyed_writes WHERE token_id = :token_id AND write_key = :write_key AND status IS NULL;

-- name: forget_writes
-- Drops what is older than anybody repeats.
DELETE FROM keyed_writes WHERE begun_at < :before;
