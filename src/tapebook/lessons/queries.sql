-- name: active
-- The note that stood as of a sequence number, and where it was written.
SELECT seq, id, agent, agent_version, generated_at, window_start, window_end, trades_considered, lessons_text,
    content_hash, model_used, input_tokens, output_tokens, cost_usd_e6, attempts
FROM reflection_notes
WHERE owner = :owner AND deployment = :deployment AND seq <= :seq
ORDER BY seq DESC LIMIT 1;

-- name: notes
-- An owner's notes, of one deployment, newest first.
SELECT seq, id, agent, agent_version, generated_at, window_start, window_end, trades_considered, lessons_text,
    content_hash, model_used, input_tokens, output_tokens, cost_usd_e6, attempts
FROM reflection_notes
WHERE owner = :owner AND deployment = :deployment
ORDER BY seq DESC LIMIT :most;
