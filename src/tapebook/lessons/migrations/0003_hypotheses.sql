-- Lessons as hypotheses: one row for each event that registered, judged, confirmed, weakened or retired one, with all that
-- was known of it by then.
CREATE TABLE lessons (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    lesson_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    change_kind TEXT NOT NULL,
    status TEXT NOT NULL,
    happened_at BIGINT NOT NULL,
    lesson_json TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, lesson_id, seq)
) WITHOUT ROWID;

-- How far the market went on in favour of a position after it was left, in millionths of the exit price.
CREATE TABLE lesson_exits (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    trade_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    after_1h_ppm BIGINT,
    after_4h_ppm BIGINT,
    PRIMARY KEY (owner, deployment, trade_id)
) WITHOUT ROWID;

CREATE INDEX lesson_exits_newest ON lesson_exits (owner, deployment, seq);
