-- The one clock by which nodes are judged: the database's, in seconds.
CREATE VIEW clock AS SELECT CAST(strftime('%s', 'now') AS INTEGER) AS now;

-- Who serves from this database.
CREATE TABLE nodes (
    name TEXT NOT NULL PRIMARY KEY,
    -- Of its start.
    run TEXT NOT NULL,
    version TEXT NOT NULL,
    -- When it last said that it lives.
    seen INTEGER NOT NULL,
    -- Since when it has said so without a pause.
    steady INTEGER NOT NULL,
    -- When others took it for dead.
    gone INTEGER
) STRICT, WITHOUT ROWID;

-- What runs on them.
CREATE TABLE running (
    sandbox TEXT NOT NULL PRIMARY KEY,
    node TEXT NOT NULL,
    run TEXT NOT NULL,
    server TEXT NOT NULL,
    profile TEXT NOT NULL,
    -- As JSON.
    facts TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX running_of ON running (node, run);

-- Which node has the sandbox of a server and a profile, or starts it.
CREATE TABLE claims (
    server TEXT NOT NULL,
    -- In small letters.
    profile TEXT NOT NULL,
    sandbox TEXT NOT NULL,
    node TEXT NOT NULL,
    run TEXT NOT NULL,
    -- Of what the server was then.
    spec TEXT NOT NULL,
    PRIMARY KEY (server, profile)
) STRICT, WITHOUT ROWID;
CREATE INDEX claims_of ON claims (sandbox);
