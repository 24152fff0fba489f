-- The notional at entry: what the order that opened a trade filled, and which order that was where no run of ours placed
-- it. Trades from before it was recorded have none.
ALTER TABLE positions ADD COLUMN entry_usd_e6 BIGINT;
ALTER TABLE trade_history ADD COLUMN entry_usd_e6 BIGINT;
ALTER TABLE trade_history ADD COLUMN entry_order_id TEXT;
