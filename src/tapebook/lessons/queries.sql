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
-- A deployment's reflections, newest first, each with the state it had as of a sequence number.
SELECT seq, id, agent, agent_version, generated_at, window_start, window_end, trades_considered, lessons_text,
    content_hash, model_used, input_tokens, output_tokens, cost_usd_e6, attempts,
    CASE WHEN superseded_seq > :seq THEN 'active' ELSE status END, problem
FROM reflection_notes
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq
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

-- name: lessons
-- Every lesson as it was known last as of a sequence number.
SELECT l.seq, l.change_kind, l.happened_at, l.lesson_json FROM lessons l
WHERE l.owner = :owner AND l.deployment = :deployment AND l.seq = (
    SELECT MAX(v.seq) FROM lessons v
    WHERE v.owner = :owner AND v.deployment = :deployment AND v.lesson_id = l.lesson_id AND v.seq <= :seq
)
ORDER BY l.lesson_id;

-- name: lesson_changes
-- What happened to lessons up to a sequence number, newest first: trades that changed nothing are left out.
SELECT seq, change_kind, happened_at, lesson_json FROM lessons
WHERE owner = :owner AND deployment = :deployment AND change_kind <> 'judged' AND seq <= :seq
ORDER BY seq DESC LIMIT :most;

-- name: exits
-- What the market did after the exits that were followed last.
SELECT trade_id, after_1h_ppm, after_4h_ppm FROM lesson_exits
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq
ORDER BY seq DESC, trade_id LIMIT :most;
