-- name: agent_version
-- One version of an agent's profile.
INSERT INTO agent_versions (
    owner, agent, version, deployment, seq, known_at, profile_json, removed
) VALUES (
    :owner, :agent, :version, :deployment, :seq, :known_at, :profile_json, :removed
);

-- name: deployment
-- An agent version began to run.
INSERT INTO deployments (
    owner, deployment, seq, agent, version, broker, opened_at
) VALUES (
    :owner, :deployment, :seq, :agent, :version, :broker, :opened_at
);

-- name: control
-- A halt or a resume.
INSERT INTO desk_controls (
    owner, deployment, seq, subject, halted, reason, known_at
) VALUES (
    :owner, :deployment, :seq, :subject, :halted, :reason, :known_at
);

-- name: flattening
-- A wish to be flat.
INSERT INTO desk_flattenings (
    owner, deployment, seq, subject, reason, known_at, symbol
) VALUES (
    :owner, :deployment, :seq, :subject, :reason, :known_at, :symbol
);

-- name: run
-- A decision, as it was made.
INSERT INTO decision_runs (
    owner, deployment, seq, created_at, degraded_json, degraded_causes_json, model, input_tokens, output_tokens,
    cost_usd_e6, attempts,
    run_id, agent, agent_version, symbol, scheduled_for, run_trigger, branch, as_of, tape_seq, book_seq, docs_seq,
    curated_seq, renderer, packet_sha256, tokens, engine, packet_key, reply_key, status, error, reason_key
) VALUES (
    :owner, :deployment, :seq, :created_at, :degraded_json, :degraded_causes_json, :model, :input_tokens, :output_tokens,
    :cost_usd_e6, :attempts,
    :run_id, :agent, :agent_version, :symbol, :scheduled_for, :run_trigger, :branch, :as_of, :tape_seq, :book_seq, :docs_seq,
    :curated_seq, :renderer, :packet_sha256, :tokens, :engine, :packet_key, :reply_key, :status, :error, :reason_key
);

-- name: done
-- A decision that was made is no work any more.
DELETE FROM work WHERE run_id = :run_id;

-- name: end_run
-- All orders of a run have ended.
UPDATE decision_runs SET status = :status, ended_seq = :seq, ended_at = :known_at WHERE run_id = :run_id;

-- name: action
-- One proposed action with the guard's verdict.
INSERT INTO decision_actions (
    owner, deployment, seq, position, run_id, cites_json, allowed, rule, detail, flags_json,
    action, symbol, side, notional_usd_e6, leverage, order_type, limit_price_e8, confidence_e4, reason
) VALUES (
    :owner, :deployment, :seq, :position, :run_id, :cites_json, :allowed, :rule, :detail, :flags_json,
    :action, :symbol, :side, :notional_usd_e6, :leverage, :order_type, :limit_price_e8, :confidence_e4, :reason
);

-- name: order
-- An order that is about to be placed.
INSERT INTO orders (
    owner, deployment, client_id, seq, run_id, symbol, side, size_e8, order_type, limit_price_e8, reduce_only,
    leverage, intended_at, status, detail, created_at, updated_at
) VALUES (
    :owner, :deployment, :client_id, :seq, :run_id, :symbol, :side, :size_e8, :order_type, :limit_price_e8,
    :reduce_only, :leverage, :intended_at, 'intended', '', :known_at, :known_at
);

-- name: dry_order
-- An order of a dry run: it has ended as it was written.
INSERT INTO orders (
    owner, deployment, client_id, seq, run_id, symbol, side, size_e8, order_type, limit_price_e8, reduce_only,
    leverage, intended_at, status, detail, ended_seq, dry, created_at, updated_at
) VALUES (
    :owner, :deployment, :client_id, :seq, :run_id, :symbol, :side, :size_e8, :order_type, :limit_price_e8,
    :reduce_only, :leverage, :intended_at, 'dry', :detail, :seq, 1, :known_at, :known_at
);

-- name: dry_ledger_line
-- What an order of a dry run would have cost or brought; cash stays what it was.
INSERT INTO wallet_ledger (
    owner, deployment, seq, line, kind, symbol, amount_usd_e6, balance_usd_e6, happened_at, dry
) VALUES (
    :owner, :deployment, :seq, 0, 'dry_order', :symbol, :amount_usd_e6, :balance_usd_e6, :happened_at, 1
);

-- name: place_order
-- The broker has the order.
UPDATE orders SET status = 'placed', detail = '', placed_seq = :seq, updated_at = :known_at
WHERE client_id = :client_id;

-- name: doubt_order
-- Whether the broker has the order is not known; it stays intended.
UPDATE orders SET detail = :detail, updated_at = :known_at WHERE client_id = :client_id;

-- name: end_order
-- The broker's last word on an order.
UPDATE orders SET status = :status, detail = :detail, ended_seq = :seq, updated_at = :known_at
WHERE client_id = :client_id;

-- name: fill
-- An executed part of an order; its id refuses a second copy.
INSERT INTO fills (
    owner, deployment, seq, fill_id, client_id, symbol, happened_at, signed_size_e8, price_e8, fee_usd_e6,
    maker, liquidation
) VALUES (
    :owner, :deployment, :seq, :fill_id, :client_id, :symbol, :happened_at, :signed_size_e8, :price_e8,
    :fee_usd_e6, :maker, :liquidation
);

-- name: spot_fill
-- A spot fill of the past; its id refuses a second copy.
INSERT INTO spot_fills (
    owner, deployment, seq, fill_id, market, happened_at, signed_size_e8, price_e8, fee_e8, fee_token, direction, maker,
    order_id
) VALUES (
    :owner, :deployment, :seq, :fill_id, :market, :happened_at, :signed_size_e8, :price_e8, :fee_e8, :fee_token,
    :direction, :maker, :order_id
);

-- name: token_fee
-- The fee of a fill, in a token that is no dollar.
UPDATE fills SET fee_token = :token, fee_e8 = :amount_e8
WHERE owner = :owner AND deployment = :deployment AND fill_id = :fill_id;

-- name: bridge_fill
-- A fill that stands for those that are missing.
UPDATE fills SET bridge = 1 WHERE owner = :owner AND deployment = :deployment AND fill_id = :fill_id;

-- name: mark_trade
-- What is not known of a trade.
UPDATE trade_history SET lacks = :lacks WHERE id = :trade_id;

-- name: ledger_line
-- One line of the wallet's ledger, with cash after it.
INSERT INTO wallet_ledger (
    owner, deployment, seq, line, kind, symbol, amount_usd_e6, balance_usd_e6, happened_at
) VALUES (
    :owner, :deployment, :seq, :line, :kind, :symbol, :amount_usd_e6, :balance_usd_e6, :happened_at
);

-- name: position
-- One version of a position and of its trade's totals.
INSERT INTO positions (
    owner, deployment, symbol, seq, trade_id, size_e8, cost_usd_e6, leverage, entered_e8, entered_usd_e6,
    exited_e8, exited_usd_e6, realised_usd_e6, fees_usd_e6, funding_usd_e6, mfe_usd_e6, mae_usd_e6, funded_until,
    margin_usd_e6, moved_at, entry_usd_e6
) VALUES (
    :owner, :deployment, :symbol, :seq, :trade_id, :size_e8, :cost_usd_e6, :leverage, :entered_e8,
    :entered_usd_e6, :exited_e8, :exited_usd_e6, :realised_usd_e6, :fees_usd_e6, :funding_usd_e6, :mfe_usd_e6,
    :mae_usd_e6, :funded_until, :margin_usd_e6, :moved_at, :entry_usd_e6
);

-- name: snapshot
-- What the account was worth at a tick.
INSERT INTO portfolio_snapshots (
    owner, deployment, seq, happened_at, marks_json, cash_usd_e6, equity_usd_e6, walked_until
) VALUES (
    :owner, :deployment, :seq, :happened_at, :marks_json, :cash_usd_e6, :equity_usd_e6, :walked_until
);

-- name: open_trade
-- A round trip began.
INSERT INTO trade_history (
    id, owner, deployment, agent, agent_version, symbol, side, status, entry_seq, entry_tick_at,
    entry_mark_e8, entry_leverage, entry_reason, entry_run_id, entry_lessons_hash, entry_regime_tag,
    entry_order_id, created_at, updated_at
) VALUES (
    :trade_id, :owner, :deployment, :agent, :agent_version, :symbol, :side, 'open', :seq, :entry_tick_at,
    :entry_mark_e8, :entry_leverage, :entry_reason, :entry_run_id, :entry_lessons_hash, :entry_regime_tag,
    :entry_order_id, :known_at, :known_at
);

-- name: close_trade
-- A round trip ended: the only update its row ever gets.
UPDATE trade_history SET
    status = 'closed', exit_seq = :seq, exit_tick_at = :exit_tick_at, exit_reason = :exit_reason, exit_run_id = :exit_run_id,
    entered_e8 = :entered_e8, entered_usd_e6 = :entered_usd_e6, exited_e8 = :exited_e8, exited_usd_e6 = :exited_usd_e6,
    realised_usd_e6 = :realised_usd_e6, fees_usd_e6 = :fees_usd_e6, funding_usd_e6 = :funding_usd_e6,
    mfe_usd_e6 = :mfe_usd_e6, mae_usd_e6 = :mae_usd_e6, funded_until = :funded_until,
    entry_usd_e6 = :entry_usd_e6, updated_at = :known_at
WHERE id = :trade_id;
