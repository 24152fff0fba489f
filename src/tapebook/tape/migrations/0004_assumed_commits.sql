-- Retention asks of every row whether it was imported. There are few such commits among very many.
CREATE INDEX tape_commits_assumed ON tape_commits (seq) WHERE known_basis = 'assumed';
