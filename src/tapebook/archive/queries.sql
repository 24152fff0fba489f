-- name: place
-- The pack of an object, and where in it.
SELECT p.key, o.group_at, o.group_bytes, o."offset", o.size
FROM packed o JOIN packs p ON p.number = o.pack WHERE o.digest = :digest;

-- name: packs
-- Every pack that was taken in.
SELECT key FROM packs;

-- name: pack
-- The number of a pack.
SELECT number FROM packs WHERE key = :key;

-- name: add_pack
-- Takes in a pack.
INSERT INTO packs (key) VALUES (:key) ON CONFLICT (key) DO NOTHING;

-- name: add_place
-- Takes in an object of a pack; of one that lies in two packs either will do.
INSERT INTO packed (digest, pack, group_at, group_bytes, "offset", size)
VALUES (:digest, :pack, :group_at, :group_bytes, :offset, :size) ON CONFLICT (digest) DO NOTHING;

-- name: digests
-- Every object.
SELECT digest FROM packed ORDER BY digest;
