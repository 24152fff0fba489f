-- name: newest
-- The newest outcome as of a sequence number, how many situations there were with it, and the newest forgetting.
SELECT seq, situations, COALESCE((
    SELECT MAX(f.seq) FROM experience_forgettings f
    WHERE f.owner = :owner AND f.deployment = :deployment AND f.seq <= :seq
), 0) FROM experience_outcomes
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq DESC LIMIT 1;

-- name: known
-- Whether a trade was learned from already.
SELECT seq FROM experience_outcomes WHERE owner = :owner AND deployment = :deployment AND trade_id = :trade_id;

-- name: outcome_of_trade
-- What was learned from a trade.
SELECT seq, outcome_json, situations, packed FROM experience_outcomes
WHERE owner = :owner AND deployment = :deployment AND trade_id = :trade_id;

-- name: trade_learned
-- The trade an outcome is of, by the event that taught it.
SELECT trade_id FROM experience_outcomes WHERE owner = :owner AND deployment = :deployment AND seq = :seq;

-- name: sight
-- What a run saw; its first word counts.
SELECT sight_json FROM experience_sights
WHERE owner = :owner AND deployment = :deployment AND run_id = :run_id AND seq <= :seq ORDER BY seq LIMIT 1;

-- name: record
-- One record as of a sequence number.
SELECT kind, name, n, wins, total_ppm, square_ppm2, usd_e6 FROM experience_records
WHERE owner = :owner AND deployment = :deployment AND kind = :kind AND name = :name AND seq <= :seq
ORDER BY seq DESC LIMIT 1;

-- name: records
-- Every record of one kind as of a sequence number. Names are found by stepping through the key, so the
-- cost does not grow with the number of versions.
WITH RECURSIVE known (name) AS (
    SELECT MIN(name) FROM experience_records WHERE owner = :owner AND deployment = :deployment AND kind = :kind
    UNION ALL
    SELECT (
        SELECT MIN(r.name) FROM experience_records r
        WHERE r.owner = :owner AND r.deployment = :deployment AND r.kind = :kind AND r.name > known.name
    )
    FROM known WHERE known.name IS NOT NULL
)
SELECT r.kind, r.name, r.n, r.wins, r.total_ppm, r.square_ppm2, r.usd_e6
FROM known
CROSS JOIN experience_records r
WHERE r.owner = :owner AND r.deployment = :deployment AND r.kind = :kind AND r.name = known.name
    AND r.seq = (
        SELECT MAX(v.seq) FROM experience_records v
        WHERE v.owner = :owner AND v.deployment = :deployment AND v.kind = :kind AND v.name = known.name AND v.seq <= :seq
    )
ORDER BY r.name;

-- name: recent
-- The sums of the newest outcomes by time, as of a sequence number, without those forgotten by then.
SELECT
    COUNT(*), CAST(COALESCE(SUM(CASE WHEN net_usd_e6 > 0 THEN 1 ELSE 0 END), 0) AS BIGINT),
    CAST(COALESCE(SUM(result_ppm), 0) AS BIGINT), CAST(COALESCE(SUM(result_ppm * result_ppm), 0) AS BIGINT),
    CAST(COALESCE(SUM(net_usd_e6), 0) AS BIGINT)
FROM (
    SELECT result_ppm, net_usd_e6 FROM experience_outcomes o
    WHERE owner = :owner AND deployment = :deployment AND exited_at > :since AND exited_at <= :as_of AND seq <= :seq
    AND NOT EXISTS (
        SELECT 1 FROM experience_forgotten f
        WHERE f.owner = :owner AND f.deployment = :deployment AND f.trade_id = o.trade_id AND f.seq <= :seq
            AND NOT EXISTS (
                SELECT 1 FROM experience_forgettings u
                WHERE u.owner = :owner AND u.deployment = :deployment AND u.forget_id = f.forget_id AND u.undone = 1
                    AND u.seq <= :seq
            )
    )
    ORDER BY exited_at DESC, trade_id DESC LIMIT :most
) AS newest;

-- name: results
-- The same outcomes one by one, as far as sums need them.
SELECT exited_at, result_ppm, net_usd_e6 FROM experience_outcomes o
WHERE owner = :owner AND deployment = :deployment AND exited_at > :since AND seq <= :seq
    AND NOT EXISTS (
        SELECT 1 FROM experience_forgotten f
        WHERE f.owner = :owner AND f.deployment = :deployment AND f.trade_id = o.trade_id AND f.seq <= :seq
            AND NOT EXISTS (
                SELECT 1 FROM experience_forgettings u
                WHERE u.owner = :owner AND u.deployment = :deployment AND u.forget_id = f.forget_id AND u.undone = 1
                    AND u.seq <= :seq
            )
    )
ORDER BY exited_at DESC, trade_id DESC LIMIT :most;

-- name: outcomes
-- The newest outcomes by time, as of a sequence number.
SELECT outcome_json FROM experience_outcomes
WHERE owner = :owner AND deployment = :deployment AND exited_at > :since AND seq <= :seq
ORDER BY exited_at DESC, trade_id DESC LIMIT :most;

-- name: learned
-- A slice of the outcomes in the order they were learned, with all that was learned of them.
SELECT o.seq, o.outcome_json, o.situations, o.packed, m.vector_json, o.source
FROM experience_outcomes o
LEFT JOIN experience_trade_moments m ON m.owner = o.owner AND m.deployment = o.deployment AND m.seq = o.seq
WHERE o.owner = :owner AND o.deployment = :deployment AND o.seq > :after AND o.seq <= :until
ORDER BY o.seq LIMIT :page;

-- name: pages
-- Full pages of situations.
SELECT page, packed FROM experience_situations
WHERE owner = :owner AND deployment = :deployment AND page >= :first_page AND page < :end_page ORDER BY page;

-- name: unpacked
-- Situations by number, one by one.
SELECT packed FROM experience_outcomes
WHERE owner = :owner AND deployment = :deployment AND situations > :after AND situations <= :until
    AND packed IS NOT NULL
ORDER BY situations;

-- name: last_page
-- The newest full page.
SELECT MAX(page) FROM experience_situations WHERE owner = :owner AND deployment = :deployment;

-- name: fit
-- The fit in force as of a sequence number.
SELECT seq, fit_json FROM experience_fits
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq DESC LIMIT 1;

-- name: fits
-- Every fit as of a sequence number, oldest first.
SELECT fit_json FROM experience_fits
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq;

-- name: snapshots
-- The newest snapshots as of a sequence number.
SELECT snapshot_json FROM experience_snapshots
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq DESC LIMIT :most;

-- name: moments
-- A slice of the notes of moments, in order.
SELECT seq, moment_json FROM experience_moments
WHERE owner = :owner AND deployment = :deployment AND seq > :after AND seq <= :until ORDER BY seq;

-- name: newest_moment
-- The newest note of a moment as of a sequence number, what trading cost then, and the newest fit.
SELECT seq, costs_ppm, (
    SELECT MAX(f.seq) FROM experience_moment_fits f
    WHERE f.owner = :owner AND f.deployment = :deployment AND f.seq <= :seq
) FROM experience_moments
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq DESC LIMIT 1;

-- name: moment_fit
-- The fit of moments in force as of a sequence number.
SELECT seq, fit_json FROM experience_moment_fits
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq DESC LIMIT 1;

-- name: moment_fits
-- Every fit of moments as of a sequence number, oldest first.
SELECT seq, fit_json FROM experience_moment_fits
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq;

-- name: trade_moments
-- A slice of the moments at which trades were entered, in the order in which these were learned from.
SELECT seq, symbol, side, entered_at, result_ppm, vector_json FROM experience_trade_moments
WHERE owner = :owner AND deployment = :deployment AND seq > :after AND seq <= :until
ORDER BY seq LIMIT :page;

-- name: twins
-- The twins that were kept last as of a sequence number.
SELECT seq, kept_at, twins_json FROM experience_twins
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq DESC LIMIT 1;

-- name: kept_twins
-- All twins that were kept, oldest first.
SELECT seq, twins_json FROM experience_twins
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq ORDER BY seq;

-- name: forgettings
-- What was forgotten as of a sequence number, oldest first, each with when it was taken back.
SELECT f.forget_id, f.happened_at, f.outcomes, f.terms_json, f.reason, (
    SELECT MIN(u.happened_at) FROM experience_forgettings u
    WHERE u.owner = :owner AND u.deployment = :deployment AND u.forget_id = f.forget_id AND u.undone = 1
        AND u.seq <= :seq
)
FROM experience_forgettings f
WHERE f.owner = :owner AND f.deployment = :deployment AND f.seq <= :seq AND f.undone = 0 ORDER BY f.seq;

-- name: forgotten
-- The outcomes that are forgotten as of a sequence number, by their events and by what forgot them.
SELECT o.seq, f.forget_id
FROM experience_forgotten f
JOIN experience_outcomes o ON o.owner = f.owner AND o.deployment = f.deployment AND o.trade_id = f.trade_id
WHERE f.owner = :owner AND f.deployment = :deployment AND f.seq <= :seq
    AND NOT EXISTS (
        SELECT 1 FROM experience_forgettings u
        WHERE u.owner = :owner AND u.deployment = :deployment AND u.forget_id = f.forget_id AND u.undone = 1
            AND u.seq <= :seq
    );
