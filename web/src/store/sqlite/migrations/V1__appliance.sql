CREATE TABLE setup_link (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    digest BLOB NOT NULL,
    expires INTEGER NOT NULL
) STRICT;

CREATE TABLE users (
    name TEXT PRIMARY KEY COLLATE NOCASE,
    role TEXT NOT NULL,
    password TEXT NOT NULL,
    created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    user TEXT NOT NULL COLLATE NOCASE REFERENCES users (name) ON DELETE CASCADE,
    created INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    address TEXT NOT NULL,
    agent TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_user ON sessions (user);

CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    name TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL,
    author TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER,
    used INTEGER
) STRICT, WITHOUT ROWID;

-- Never emptied of a name: a policy that is made again goes on counting.
CREATE TABLE policies (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    removed INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE policy_versions (
    name TEXT NOT NULL REFERENCES policies (name),
    version INTEGER NOT NULL,
    document TEXT NOT NULL,
    author TEXT NOT NULL,
    reason TEXT NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (name, version)
) STRICT;

CREATE TABLE servers (
    name TEXT PRIMARY KEY,
    spec TEXT NOT NULL,
    author TEXT NOT NULL,
    changed INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The empty name stands for all servers that have none of their own.
CREATE TABLE assignments (
    server TEXT PRIMARY KEY,
    policy TEXT NOT NULL REFERENCES policies (name)
) STRICT, WITHOUT ROWID;
