-- What is counted of a chain: every record from place `first` up to, not including, place `next`.
CREATE TABLE counted (
    chain INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    next INTEGER NOT NULL
) STRICT;

-- Decisions of an hour, `2026-11-21T09`. `class` says how long they are kept.
CREATE TABLE count_hour (
    hour TEXT NOT NULL,
    chain INTEGER NOT NULL,
    server TEXT NOT NULL,
    class TEXT NOT NULL,
    verdict TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (hour, chain, server, class, verdict)
) STRICT, WITHOUT ROWID;

-- Decisions of a day about a host; those beyond what is kept of a server and day are about ''.
CREATE TABLE count_host (
    day TEXT NOT NULL,
    chain INTEGER NOT NULL,
    server TEXT NOT NULL,
    host TEXT NOT NULL,
    class TEXT NOT NULL,
    allowed INTEGER NOT NULL,
    denied INTEGER NOT NULL,
    would_deny INTEGER NOT NULL,
    first TEXT NOT NULL,
    last TEXT NOT NULL,
    PRIMARY KEY (day, chain, server, host, class)
) STRICT, WITHOUT ROWID;

-- Whether a host was asked for before.
CREATE INDEX count_host_by_name ON count_host (host, day);

-- Attempts of a day that differ. `id` is of `what`, which is JSON; of those beyond what is kept it is '', and
-- `id` the class.
CREATE TABLE count_attempt (
    day TEXT NOT NULL,
    chain INTEGER NOT NULL,
    server TEXT NOT NULL,
    denied INTEGER NOT NULL,
    id BLOB NOT NULL,
    class TEXT NOT NULL,
    what TEXT NOT NULL,
    count INTEGER NOT NULL,
    first TEXT NOT NULL,
    last TEXT NOT NULL,
    newest INTEGER NOT NULL,
    PRIMARY KEY (day, chain, server, denied, id)
) STRICT, WITHOUT ROWID;
