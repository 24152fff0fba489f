-- name: take_free
-- Takes a stream that nobody holds; one that is held stays as it is.
INSERT INTO leases (owner, deployment, holder, epoch, beat) VALUES (:owner, :deployment, :holder, 1, 0)
ON CONFLICT (owner, deployment) DO UPDATE SET holder = :holder, epoch = leases.epoch + 1, beat = 0
WHERE leases.holder = ''
RETURNING epoch;

-- name: take_over
-- Takes a stream from a holder that gave no sign since it was looked at.
UPDATE leases SET holder = :holder, epoch = epoch + 1, beat = 0
WHERE owner = :owner AND deployment = :deployment AND epoch = :epoch AND beat = :beat AND holder <> '';

-- name: fence
-- A sign of life inside a write. On PostgreSQL it locks the row, so that nobody takes the stream before the commit.
UPDATE leases SET beat = beat + 1
WHERE owner = :owner AND deployment = :deployment AND holder = :holder AND epoch = :epoch
RETURNING epoch;

-- name: beat
-- A sign of life for every stream of a holder.
UPDATE leases SET beat = beat + 1 WHERE holder = :holder AND holder <> '';

-- name: held_by
-- The streams of a holder.
SELECT owner, deployment, epoch FROM leases WHERE holder = :holder AND holder <> '' ORDER BY owner, deployment;

-- name: held_by_others
-- Every stream that somebody else holds, with the signs of life.
SELECT owner, deployment, holder, epoch, beat FROM leases
WHERE holder <> '' AND holder <> :holder ORDER BY owner, deployment;

-- name: holder
-- Who holds a stream; an empty name when nobody does.
SELECT holder, epoch, beat FROM leases WHERE owner = :owner AND deployment = :deployment;

-- name: release
-- Leaves a stream to others; one that was taken over stays with its new holder.
UPDATE leases SET holder = '' WHERE owner = :owner AND deployment = :deployment AND holder = :holder AND epoch = :epoch;
