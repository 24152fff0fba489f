-- Orders of a dry run and what they would have cost: written down and marked, never sent, no part of cash.
ALTER TABLE orders ADD COLUMN dry BIGINT NOT NULL DEFAULT 0;
ALTER TABLE wallet_ledger ADD COLUMN dry BIGINT NOT NULL DEFAULT 0;
