-- The id under which a write notes what it has written, and the moment it was begun: the same for every attempt.
ALTER TABLE keyed_writes ADD COLUMN write_id TEXT;
ALTER TABLE keyed_writes ADD COLUMN moment BIGINT;
