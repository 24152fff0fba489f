-- What kind of subject a symbol is: perp, spot, prediction_market, protocol, chain, stablecoin. Before there were kinds,
-- perps alone were decided on.
ALTER TABLE tape_symbols ADD COLUMN kind TEXT NOT NULL DEFAULT 'perp';
