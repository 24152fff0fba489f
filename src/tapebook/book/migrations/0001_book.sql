-- Projections of the log. Every row carries its owner and deployment, and the sequence number of the event that wrote it.

CREATE TABLE agent_versions (
    owner TEXT NOT NULL,
    agent TEXT NOT NULL,
    version BIGINT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    profile_json TEXT NOT NULL,
    PRIMARY KEY (owner, agent, version)
) WITHOUT ROWID;

CREATE TABLE deployments (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    agent TEXT NOT NULL,
    version BIGINT NOT NULL,
    broker TEXT NOT NULL,
    opened_at BIGINT NOT NULL,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;

CREATE TABLE decision_runs (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    run_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    agent_version BIGINT NOT NULL,
    symbol TEXT NOT NULL,
    scheduled_for BIGINT NOT NULL,
    run_trigger TEXT NOT NULL,
    branch TEXT NOT NULL,
    as_of BIGINT NOT NULL,
    tape_seq BIGINT NOT NULL,
    book_seq BIGINT NOT NULL,
    docs_seq BIGINT NOT NULL,
    renderer BIGINT NOT NULL,
    inputs_sha256 TEXT NOT NULL,
    packet_sha256 TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    engine TEXT NOT NULL,
    packet_key TEXT,
    reply_key TEXT,
    status TEXT NOT NULL,
    degraded_json TEXT NOT NULL,
    note TEXT NOT NULL,
    error TEXT,
    ended_seq BIGINT,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;

CREATE UNIQUE INDEX decision_runs_id ON decision_runs (run_id);
CREATE INDEX decision_runs_symbol ON decision_runs (owner, deployment, symbol, seq);

CREATE TABLE decision_actions (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    run_id TEXT NOT NULL,
    position BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    action TEXT NOT NULL,
    symbol TEXT NOT NULL,
    side TEXT,
    notional_usd_e6 BIGINT NOT NULL,
    leverage BIGINT NOT NULL,
    order_type TEXT NOT NULL,
    limit_price_e8 BIGINT,
    confidence_e4 BIGINT NOT NULL,
    reason TEXT NOT NULL,
    cites_json TEXT NOT NULL,
    allowed BIGINT NOT NULL,
    rule TEXT,
    detail TEXT NOT NULL,
    PRIMARY KEY (run_id, position)
) WITHOUT ROWID;

CREATE TABLE orders (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    client_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    run_id TEXT NOT NULL,
    symbol TEXT NOT NULL,
    side TEXT NOT NULL,
    size_e8 BIGINT NOT NULL,
    order_type TEXT NOT NULL,
    limit_price_e8 BIGINT,
    reduce_only BIGINT NOT NULL,
    leverage BIGINT NOT NULL,
    intended_at BIGINT NOT NULL,
    status TEXT NOT NULL,
    detail TEXT NOT NULL,
    placed_seq BIGINT,
    ended_seq BIGINT,
    PRIMARY KEY (client_id)
) WITHOUT ROWID;

CREATE INDEX orders_working ON orders (owner, deployment, seq) WHERE ended_seq IS NULL;
CREATE INDEX orders_run ON orders (run_id);

CREATE TABLE fills (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    fill_id TEXT NOT NULL,
    client_id TEXT,
    symbol TEXT NOT NULL,
    happened_at BIGINT NOT NULL,
    signed_size_e8 BIGINT NOT NULL,
    price_e8 BIGINT NOT NULL,
    fee_usd_e6 BIGINT NOT NULL,
    maker BIGINT NOT NULL,
    liquidation BIGINT NOT NULL,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;

CREATE UNIQUE INDEX fills_id ON fills (owner, deployment, fill_id);

CREATE TABLE wallet_ledger (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    line BIGINT NOT NULL,
    kind TEXT NOT NULL,
    symbol TEXT NOT NULL,
    amount_usd_e6 BIGINT NOT NULL,
    balance_usd_e6 BIGINT NOT NULL,
    happened_at BIGINT NOT NULL,
    PRIMARY KEY (owner, deployment, seq, line)
) WITHOUT ROWID;

-- One version of a position, with the trade it belongs to, per event that changed it; size 0 is the last version of a trade.
CREATE TABLE positions (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    symbol TEXT NOT NULL,
    seq BIGINT NOT NULL,
    trade_id TEXT NOT NULL,
    size_e8 BIGINT NOT NULL,
    cost_usd_e6 BIGINT NOT NULL,
    leverage BIGINT NOT NULL,
    entered_e8 BIGINT NOT NULL,
    entered_usd_e6 BIGINT NOT NULL,
    exited_e8 BIGINT NOT NULL,
    exited_usd_e6 BIGINT NOT NULL,
    realised_usd_e6 BIGINT NOT NULL,
    fees_usd_e6 BIGINT NOT NULL,
    funding_usd_e6 BIGINT NOT NULL,
    mfe_usd_e6 BIGINT NOT NULL,
    mae_usd_e6 BIGINT NOT NULL,
    funded_until BIGINT NOT NULL,
    PRIMARY KEY (owner, deployment, symbol, seq)
) WITHOUT ROWID;

CREATE TABLE portfolio_snapshots (
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    seq BIGINT NOT NULL,
    happened_at BIGINT NOT NULL,
    cash_usd_e6 BIGINT NOT NULL,
    equity_usd_e6 BIGINT NOT NULL,
    marks_json TEXT NOT NULL,
    PRIMARY KEY (owner, deployment, seq)
) WITHOUT ROWID;

-- Entry columns are written at the open and never again; the rest is null until the close fills it in, once.
CREATE TABLE trade_history (
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    deployment TEXT NOT NULL,
    agent TEXT NOT NULL,
    agent_version BIGINT NOT NULL,
    symbol TEXT NOT NULL,
    side TEXT NOT NULL,
    status TEXT NOT NULL,
    entry_seq BIGINT NOT NULL,
    entry_tick_at BIGINT NOT NULL,
    entry_mark_e8 BIGINT NOT NULL,
    entry_leverage BIGINT,
    entry_reason TEXT NOT NULL,
    entry_run_id TEXT,
    entry_lessons_hash TEXT,
    entry_regime_tag TEXT,
    exit_seq BIGINT,
    exit_tick_at BIGINT,
    exit_reason TEXT,
    exit_run_id TEXT,
    entered_e8 BIGINT,
    entered_usd_e6 BIGINT,
    exited_e8 BIGINT,
    exited_usd_e6 BIGINT,
    realised_usd_e6 BIGINT,
    fees_usd_e6 BIGINT,
    funding_usd_e6 BIGINT,
    mfe_usd_e6 BIGINT,
    mae_usd_e6 BIGINT,
    funded_until BIGINT,
    PRIMARY KEY (id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX trade_history_one_open ON trade_history (owner, deployment, symbol) WHERE status = 'open';
CREATE INDEX trade_history_closed ON trade_history (owner, deployment, exit_seq);
CREATE INDEX trade_history_entry ON trade_history (owner, deployment, entry_tick_at);
