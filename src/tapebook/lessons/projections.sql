-- name: supersede
-- The note before a new one is active no more.
UPDATE reflection_notes SET status = 'superseded', superseded_seq = :seq
WHERE owner = :owner AND deployment = :deployment AND status = 'active';

-- name: note
-- A reflection: a note that stands from now on, or one that came to nothing.
INSERT INTO reflection_notes (
    owner, deployment, seq, id, agent, agent_version, status, generated_at, window_start, window_end, trades_considered,
    lessons_text, content_hash, model_used, input_tokens, output_tokens, cost_usd_e6, attempts, problem
) VALUES (
    :owner, :deployment, :seq, :note_id, :agent, :agent_version, :status, :generated_at, :window_start, :window_end,
    :trades_considered, :lessons_text, :content_hash, :written_by, :input_tokens, :output_tokens, :cost_usd_e6, :attempts,
    :problem
);

-- name: skill
-- What holds for a skill from now on: a note, or with an empty text that there is none any more.
INSERT INTO skill_notes (
    owner, deployment, skill, seq, note_id, source, agent, happened_at, lessons_text, content_hash
) VALUES (
    :owner, :deployment, :skill, :seq, :note_id, :source, :agent, :happened_at, :lessons_text, :content_hash
);

-- name: lesson
-- A lesson after it was registered, judged on more trades, confirmed, weakened or retired.
INSERT INTO lessons (owner, deployment, lesson_id, seq, change_kind, status, happened_at, lesson_json)
VALUES (:owner, :deployment, :lesson_id, :seq, :change_kind, :status, :happened_at, :lesson_json);

-- name: exit
-- What the market did after a trade was left.
INSERT INTO lesson_exits (owner, deployment, trade_id, seq, after_1h_ppm, after_4h_ppm)
VALUES (:owner, :deployment, :trade_id, :seq, :after_1h_ppm, :after_4h_ppm);
