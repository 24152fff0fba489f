-- name: active
-- The note that stood as of a sequence number, and where it was written.
SELECT seq, id, agent, agent_version, generated_at, window_start, window_end, trades_considered, lessons_text,
    content_hash, model_used, input_tokens, output_tokens, cost_usd_e6, attempts
FROM reflection_notes
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq AND status <> 'refused'
ORDER BY seq DESC LIMIT 1;

-- name: last_try
-- The newest reflection as of a sequence number, whatever came of it, and when it was.
SELECT seq, generated_at FROM reflection_notes
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq
ORDER BY seq DESC LIMIT 1;

-- name: notes
-- A deployment's reflections, newest first.
SELECT seq, id, agent, agent_version, generated_at, window_start, window_end, trades_considered, lessons_text,
    content_hash, model_used, input_tokens, output_tokens, cost_usd_e6, attempts, status, problem
FROM reflection_notes
WHERE owner = :owner AND deployment = :deployment
ORDER BY seq DESC LIMIT :most;

-- name: skills
-- What holds for each skill as of a sequence number, in the owner's stream or as a deployment was told.
SELECT s.skill, s.note_id, s.source, s.agent, s.happened_at, s.lessons_text, s.content_hash
FROM skill_notes s
WHERE s.owner = :owner AND s.deployment = :deployment AND s.seq = (
    SELECT MAX(v.seq) FROM skill_notes v
    WHERE v.owner = :owner AND v.deployment = :deployment AND v.skill = s.skill AND v.seq <= :seq
)
ORDER BY s.skill;
