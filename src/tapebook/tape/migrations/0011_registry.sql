-- Records by subject, in versions: markets and their categories, and what sources keep of events and prediction markets.
-- Commit 0 is the snapshot that comes with the migrations; its `known_at` is the day it was taken. They are few, change
-- seldom, and none ever leaves for the archive.
CREATE TABLE tape_registry (
    register TEXT NOT NULL,
    subject TEXT NOT NULL,
    seq BIGINT NOT NULL,
    known_at BIGINT NOT NULL,
    record_json TEXT NOT NULL,
    PRIMARY KEY (register, subject, seq)
) WITHOUT ROWID;

CREATE VIEW hyperliquid_assets AS
SELECT subject AS symbol, record_json, known_at, seq FROM tape_registry WHERE register = 'hyperliquid_assets';

CREATE VIEW hyperliquid_asset_categories AS
SELECT subject AS category, record_json, known_at, seq FROM tape_registry WHERE register = 'hyperliquid_asset_categories';
