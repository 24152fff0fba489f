-- What models answered to the backtests of a home: an entry for every question that was asked, and what it cost.
-- `asked_at` is the machine's time and not the market's. An answer without a problem is given to whoever asks the same.
CREATE TABLE model_answers (
    answer INTEGER PRIMARY KEY,
    asked_at BIGINT NOT NULL,
    backtest TEXT NOT NULL,
    agent TEXT NOT NULL,
    question_sha256 TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_usd_e6 BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    text TEXT NOT NULL,
    reasoning TEXT NOT NULL,
    problem TEXT
);

CREATE INDEX model_answers_question ON model_answers (question_sha256);
CREATE INDEX model_answers_backtest ON model_answers (backtest);
CREATE INDEX model_answers_day ON model_answers (agent, asked_at, cost_usd_e6);

-- Answers that a backtest did not have to ask for, because another one had.
CREATE TABLE reused_answers (
    backtest TEXT NOT NULL,
    question_sha256 TEXT NOT NULL,
    saved_usd_e6 BIGINT NOT NULL,
    PRIMARY KEY (backtest, question_sha256)
) WITHOUT ROWID;
