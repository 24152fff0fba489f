-- name: sight
-- What a run saw.
INSERT INTO experience_sights (
    owner, deployment, run_id, seq, symbol, seen_at, sight_json
) VALUES (
    :owner, :deployment, :run_id, :seq, :symbol, :seen_at, :sight_json
);

-- name: outcome
-- A closed trade.
INSERT INTO experience_outcomes (
    owner, deployment, seq, trade_id, exited_at, result_ppm, net_usd_e6, situations, packed, source, outcome_json
) VALUES (
    :owner, :deployment, :seq, :trade_id, :exited_at, :result_ppm, :net_usd_e6, :situations, :packed, :source,
    :outcome_json
);

-- name: record
-- One version of a record.
INSERT INTO experience_records (
    owner, deployment, kind, name, seq, n, wins, total_ppm, square_ppm2, usd_e6
) VALUES (
    :owner, :deployment, :kind, :name, :seq, :n, :wins, :total_ppm, :square_ppm2, :usd_e6
);

-- name: page
-- A full page of situations.
INSERT INTO experience_situations (owner, deployment, page, seq, packed)
VALUES (:owner, :deployment, :page, :seq, :packed);

-- name: fit
-- How readings become vectors from here on.
INSERT INTO experience_fits (
    owner, deployment, seq, first_situation, last_situation, fit_json
) VALUES (
    :owner, :deployment, :seq, :first_situation, :last_situation, :fit_json
);

-- name: snapshot
-- What a chunk achieved.
INSERT INTO experience_snapshots (
    owner, deployment, seq, chunk, ended_at, snapshot_json
) VALUES (
    :owner, :deployment, :seq, :chunk, :ended_at, :snapshot_json
);

-- name: moment
-- What the market looked like at a decision, and what it did after earlier ones.
INSERT INTO experience_moments (
    owner, deployment, seq, number, symbol, noted_at, costs_ppm, moment_json
) VALUES (
    :owner, :deployment, :seq, :number, :symbol, :noted_at, :costs_ppm, :moment_json
);

-- name: moment_fit
-- How the vectors of moments are scaled from here on.
INSERT INTO experience_moment_fits (
    owner, deployment, seq, last_moment, fit_json
) VALUES (
    :owner, :deployment, :seq, :last_moment, :fit_json
);

-- name: trade_moment
-- The moment at which a trade was entered that ended.
INSERT INTO experience_trade_moments (
    owner, deployment, seq, symbol, side, entered_at, result_ppm, vector_json
) VALUES (
    :owner, :deployment, :seq, :symbol, :side, :entered_at, :result_ppm, :vector_json
);

-- name: forget_moments
-- Empties a table of one stream, before its events are applied again.
DELETE FROM experience_moments WHERE owner = :owner AND deployment = :deployment;

-- name: forget_moment_fits
-- Empties a table of one stream, before its events are applied again.
DELETE FROM experience_moment_fits WHERE owner = :owner AND deployment = :deployment;

-- name: forget_trade_moments
-- Empties a table of one stream, before its events are applied again.
DELETE FROM experience_trade_moments WHERE owner = :owner AND deployment = :deployment;

-- name: forget_sights
-- Empties a table of one stream, before its events are applied again.
DELETE FROM experience_sights WHERE owner = :owner AND deployment = :deployment;

-- name: forget_outcomes
-- Empties a table of one stream, before its events are applied again.
DELETE FROM experience_outcomes WHERE owner = :owner AND deployment = :deployment;

-- name: forget_records
-- Empties a table of one stream, before its events are applied again.
DELETE FROM experience_records WHERE owner = :owner AND deployment = :deployment;

-- name: forget_situations
-- Empties a table of one stream, before its events are applied again.
DELETE FROM experience_situations WHERE owner = :owner AND deployment = :deployment;

-- name: forget_fits
-- Empties a table of one stream, before its events are applied again.
DELETE FROM experience_fits WHERE owner = :owner AND deployment = :deployment;

-- name: forget_snapshots
-- Empties a table of one stream, before its events are applied again.
DELETE FROM experience_snapshots WHERE owner = :owner AND deployment = :deployment;

-- name: twins
-- The twins of all symbols at a moment.
INSERT INTO experience_twins (owner, deployment, seq, kept_at, twins_json)
VALUES (:owner, :deployment, :seq, :kept_at, :twins_json);

-- name: forget_twins
-- Empties a table of one stream, before its events are applied again.
DELETE FROM experience_twins WHERE owner = :owner AND deployment = :deployment;

-- name: forgetting
-- What was forgotten, or that it was taken back.
INSERT INTO experience_forgettings (
    owner, deployment, seq, forget_id, undone, happened_at, outcomes, terms_json, reason
) VALUES (
    :owner, :deployment, :seq, :forget_id, :undone, :happened_at, :outcomes, :terms_json, :reason
);

-- name: forgotten
-- An outcome that was forgotten.
INSERT INTO experience_forgotten (owner, deployment, trade_id, forget_id, seq)
VALUES (:owner, :deployment, :trade_id, :forget_id, :seq);

-- name: forget_forgettings
-- Empties a table of one stream, before its events are applied again.
DELETE FROM experience_forgettings WHERE owner = :owner AND deployment = :deployment;

-- name: forget_forgotten
-- Empties a table of one stream, before its events are applied again.
DELETE FROM experience_forgotten WHERE owner = :owner AND deployment = :deployment;
