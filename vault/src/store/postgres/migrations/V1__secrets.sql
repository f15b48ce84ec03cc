-- The tables of the SQLite store, by the same names. Texts are compared octet by octet, whatever the
-- database's language is.

-- One row, which a commit holds until it is over: commits of all nodes come one after the other.
CREATE TABLE secret_generation (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    generation BIGINT NOT NULL
);
INSERT INTO secret_generation VALUES (1, 0);

CREATE TABLE secrets (
    owner TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    definition TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    removed BIGINT,
    key_id TEXT COLLATE "C" NOT NULL,
    tag BYTEA NOT NULL,
    PRIMARY KEY (owner, name)
);

CREATE TABLE secret_versions (
    owner TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    created BIGINT NOT NULL,
    expires BIGINT,
    retires BIGINT,
    revoked BIGINT,
    custody BOOLEAN NOT NULL,
    format BIGINT NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    wrapped BYTEA NOT NULL,
    value BYTEA NOT NULL,
    tag BYTEA NOT NULL,
    PRIMARY KEY (owner, name, version)
);

CREATE TABLE secret_custodies (
    owner TEXT COLLATE "C" PRIMARY KEY,
    salt BYTEA NOT NULL,
    memory BIGINT NOT NULL,
    passes BIGINT NOT NULL,
    lanes BIGINT NOT NULL,
    check_value BYTEA NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    tag BYTEA NOT NULL
);

CREATE TABLE secret_keys (
    id TEXT COLLATE "C" PRIMARY KEY,
    created BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    other BYTEA,
    other_id TEXT COLLATE "C",
    until BIGINT
);
