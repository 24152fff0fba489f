-- name: find
-- The answer to a question: the newest that this backtest asked for itself, else the first that another one got.
-- One that failed is given only where a backtest is made again, to which it happened.
SELECT backtest, text, reasoning, problem, model, input_tokens, output_tokens, cost_usd_e6, attempts
FROM model_answers
WHERE question_sha256 = :question_sha256
    AND (problem IS NULL OR (:failures = 1 AND backtest = :backtest))
ORDER BY backtest = :backtest DESC, CASE WHEN backtest = :backtest THEN -answer ELSE answer END
LIMIT 1;

-- name: add
-- A question that was asked, and what came of it.
INSERT INTO model_answers (
    asked_at, backtest, agent, question_sha256, model, input_tokens, output_tokens, cost_usd_e6, attempts,
    text, reasoning, problem
) VALUES (
    :asked_at, :backtest, :agent, :question_sha256, :model, :input_tokens, :output_tokens, :cost_usd_e6, :attempts,
    :text, :reasoning, :problem
);

-- name: reuse
-- An answer of another backtest that this one was given; gives a row when it was not given before.
INSERT INTO reused_answers (backtest, question_sha256, saved_usd_e6)
VALUES (:backtest, :question_sha256, :saved_usd_e6)
ON CONFLICT (backtest, question_sha256) DO NOTHING RETURNING saved_usd_e6;

-- name: spent
-- What the models of a backtest were asked for and cost.
SELECT COALESCE(SUM(attempts), 0), COALESCE(SUM(input_tokens), 0), COALESCE(SUM(output_tokens), 0),
    COALESCE(SUM(cost_usd_e6), 0)
FROM model_answers WHERE backtest = :backtest;

-- name: reused
-- How many answers a backtest was given that another one had paid for, and what those had cost.
SELECT COUNT(*), COALESCE(SUM(saved_usd_e6), 0) FROM reused_answers WHERE backtest = :backtest;

-- name: spent_since
-- What all backtests of an agent cost since a moment of the machine's clock.
SELECT COALESCE(SUM(cost_usd_e6), 0) FROM model_answers WHERE agent = :agent AND asked_at >= :since;

-- name: usual
-- What the newest answers of a model used on average.
SELECT COUNT(*), COALESCE(SUM(input_tokens), 0), COALESCE(SUM(output_tokens), 0) FROM (
    SELECT input_tokens, output_tokens FROM model_answers
    WHERE model = :model AND problem IS NULL ORDER BY answer DESC LIMIT 1000
);
