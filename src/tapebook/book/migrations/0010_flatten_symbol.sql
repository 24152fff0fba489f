-- A wish to be flat may name one symbol; empty is all of them, as every wish before this was.
ALTER TABLE desk_flattenings ADD COLUMN symbol TEXT NOT NULL DEFAULT '';
