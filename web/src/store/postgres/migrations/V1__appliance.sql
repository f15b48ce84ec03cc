-- The tables of the SQLite store, by the same names: the same statements ask them. Texts are compared
-- octet by octet, whatever the database's language is.

-- One row, which a change holds until it is committed: changes of all nodes come one after the other.
CREATE TABLE standing (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    -- How many changes there were that policies may depend on.
    policies BIGINT NOT NULL
);
INSERT INTO standing VALUES (1, 0);

CREATE TABLE setup_link (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    digest BYTEA NOT NULL,
    expires BIGINT NOT NULL
);

CREATE TABLE users (
    name TEXT COLLATE "C" PRIMARY KEY,
    role TEXT COLLATE "C" NOT NULL,
    password TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL
);
-- Who is Ana is ana.
CREATE UNIQUE INDEX users_folded ON users (lower(name));

CREATE TABLE sessions (
    id TEXT COLLATE "C" PRIMARY KEY,
    digest BYTEA NOT NULL,
    "user" TEXT COLLATE "C" NOT NULL REFERENCES users (name) ON DELETE CASCADE,
    created BIGINT NOT NULL,
    seen BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL
);
CREATE INDEX sessions_user ON sessions ("user");

CREATE TABLE tokens (
    id TEXT COLLATE "C" PRIMARY KEY,
    digest BYTEA NOT NULL,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    role TEXT COLLATE "C" NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    expires BIGINT,
    used BIGINT
);

-- Never emptied of a name: a policy that is made again goes on counting.
CREATE TABLE policies (
    name TEXT COLLATE "C" PRIMARY KEY,
    version BIGINT NOT NULL,
    removed BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE policy_versions (
    name TEXT COLLATE "C" NOT NULL REFERENCES policies (name),
    version BIGINT NOT NULL,
    document TEXT COLLATE "C" NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    PRIMARY KEY (name, version)
);

CREATE TABLE servers (
    name TEXT COLLATE "C" PRIMARY KEY,
    spec TEXT COLLATE "C" NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    changed BIGINT NOT NULL
);

-- The empty name stands for all servers that have none of their own.
CREATE TABLE assignments (
    server TEXT COLLATE "C" PRIMARY KEY,
    policy TEXT COLLATE "C" NOT NULL REFERENCES policies (name)
);
