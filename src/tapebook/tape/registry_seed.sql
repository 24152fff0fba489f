-- The markets and their categories as they were known at {day}.
DELETE FROM tape_registry WHERE seq = 0;

INSERT INTO tape_registry (register, subject, known_at, record_json, seq) VALUES
{rows};

DELETE FROM tape_seals WHERE table_name = 'tape_registry_seed';

INSERT INTO tape_seals (table_name, granularity_sec, chunk, rows_sealed, digest, seq) VALUES
('tape_registry_seed', 0, 0, {count}, '{digest}', 0);
