-- What a deployment did lately, found by its time: the cost of a tick follows the last hour and the day, never the table.
-- What is summed stands in the index itself, so that no row is looked up for it.
CREATE INDEX decision_runs_as_of ON decision_runs (owner, deployment, as_of);
CREATE INDEX fills_happened ON fills (owner, deployment, happened_at, symbol, client_id);
CREATE INDEX wallet_ledger_happened ON wallet_ledger (owner, deployment, happened_at, kind, amount_usd_e6);
CREATE INDEX trade_history_symbol ON trade_history (owner, deployment, symbol, exit_seq);

DROP INDEX trade_history_closed;
CREATE INDEX trade_history_closed ON trade_history (
    owner, deployment, exit_seq, realised_usd_e6, fees_usd_e6, funding_usd_e6
);
