-- What the market looked like at decisions, and what it did after earlier ones: one row per note, as it was written.
CREATE TABLE experience_moments (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    number BIGINT NOT NULL,
    symbol TEXT NOT NULL,
    noted_at BIGINT NOT NULL,
    costs_ppm BIGINT NOT NULL,
    moment_json TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;

-- Fits of the vectors of moments; `last_moment` is how many had joined the memory.
CREATE TABLE experience_moment_fits (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    last_moment BIGINT NOT NULL,
    fit_json TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;

-- The moments at which trades were entered that ended; `seq` is that of their outcome.
CREATE TABLE experience_trade_moments (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    symbol TEXT NOT NULL,
    side BIGINT NOT NULL,
    entered_at BIGINT NOT NULL,
    result_ppm BIGINT NOT NULL,
    vector_json TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;
