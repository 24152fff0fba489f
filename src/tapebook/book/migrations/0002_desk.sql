-- What a decision cost and who voted; and whether the desk may trade.

ALTER TABLE decision_runs ADD COLUMN model TEXT NOT NULL DEFAULT '';
ALTER TABLE decision_runs ADD COLUMN input_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE decision_runs ADD COLUMN output_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE decision_runs ADD COLUMN cost_usd_e6 BIGINT NOT NULL DEFAULT 0;
ALTER TABLE decision_runs ADD COLUMN attempts BIGINT NOT NULL DEFAULT 0;
ALTER TABLE decision_runs ADD COLUMN votes_json TEXT NOT NULL DEFAULT '[]';
CREATE INDEX decision_runs_paid ON decision_runs (owner, deployment, as_of) WHERE cost_usd_e6 > 0;

-- Numbers of a reason that nothing in the packet explains.
ALTER TABLE decision_actions ADD COLUMN flags_json TEXT NOT NULL DEFAULT '[]';

-- For the orders of the last hour.
CREATE INDEX orders_intended ON orders (owner, deployment, intended_at);

-- One row per halt and resume, of one deployment or (empty) of all; the newest of each counts.
CREATE TABLE desk_controls (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    subject TEXT NOT NULL,
    halted BIGINT NOT NULL,
    reason TEXT NOT NULL,
    known_at BIGINT NOT NULL,
    PRIMARY KEY (owner, subject, seq)
) WITHOUT ROWID;

-- One row per wish to be flat, of one deployment or (empty) of all: what began before it is to end.
CREATE TABLE desk_flattenings (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    subject TEXT NOT NULL,
    reason TEXT NOT NULL,
    known_at BIGINT NOT NULL,
    PRIMARY KEY (owner, subject, seq)
) WITHOUT ROWID;

-- What an isolated position has to lose, when its size last changed, and up to where the account's margin was checked.
ALTER TABLE positions ADD COLUMN margin_usd_e6 BIGINT NOT NULL DEFAULT 0;
ALTER TABLE positions ADD COLUMN moved_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE portfolio_snapshots ADD COLUMN walked_until BIGINT NOT NULL DEFAULT 0;
