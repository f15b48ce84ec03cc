CREATE TABLE secret_generation (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    generation INTEGER NOT NULL
) STRICT;
INSERT INTO secret_generation VALUES (1, 0);

CREATE TABLE secrets (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    definition TEXT NOT NULL,
    created INTEGER NOT NULL,
    removed INTEGER,
    key_id TEXT NOT NULL,
    tag BLOB NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE secret_versions (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER,
    retires INTEGER,
    revoked INTEGER,
    custody INTEGER NOT NULL,
    format INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    wrapped BLOB NOT NULL,
    value BLOB NOT NULL,
    tag BLOB NOT NULL,
    PRIMARY KEY (owner, name, version)
) STRICT;

CREATE TABLE secret_custodies (
    owner TEXT PRIMARY KEY,
    salt BLOB NOT NULL,
    memory INTEGER NOT NULL,
    passes INTEGER NOT NULL,
    lanes INTEGER NOT NULL,
    check_value BLOB NOT NULL,
    key_id TEXT NOT NULL,
    tag BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE secret_keys (
    id TEXT PRIMARY KEY,
    created INTEGER NOT NULL,
    state TEXT NOT NULL,
    other BLOB,
    other_id TEXT,
    until INTEGER
) STRICT, WITHOUT ROWID;
