-- Votes, the note and the hash of the inputs are in the event of a run, and read from there: here they were a second copy
-- that took more room than all the rest of the row.
ALTER TABLE decision_runs DROP COLUMN votes_json;
ALTER TABLE decision_runs DROP COLUMN note;
ALTER TABLE decision_runs DROP COLUMN inputs_sha256;
