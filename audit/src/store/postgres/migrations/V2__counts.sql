-- What is counted of a chain: every record from place `first` up to, not including, place `next`.
CREATE TABLE audit_counted (
    chain INTEGER PRIMARY KEY,
    first BIGINT NOT NULL,
    next BIGINT NOT NULL
) WITH (fillfactor = 20);

-- Decisions of an hour, `2026-11-21T09`. `class` says how long they are kept.
CREATE TABLE audit_count_hour (
    hour TEXT COLLATE "C" NOT NULL,
    chain INTEGER NOT NULL,
    server TEXT COLLATE "C" NOT NULL,
    class TEXT COLLATE "C" NOT NULL,
    verdict TEXT COLLATE "C" NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (hour, chain, server, class, verdict)
);

-- Decisions of a day about a host; those beyond what is kept of a server and day are about ''.
CREATE TABLE audit_count_host (
    day TEXT COLLATE "C" NOT NULL,
    chain INTEGER NOT NULL,
    server TEXT COLLATE "C" NOT NULL,
    host TEXT COLLATE "C" NOT NULL,
    class TEXT COLLATE "C" NOT NULL,
    allowed BIGINT NOT NULL,
    denied BIGINT NOT NULL,
    would_deny BIGINT NOT NULL,
    first TEXT COLLATE "C" NOT NULL,
    last TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (day, chain, server, host, class)
);

-- Whether a host was asked for before.
CREATE INDEX audit_count_host_by_name ON audit_count_host (host, day);

-- Attempts of a day that differ. `id` is of `what`, which is JSON; of those beyond what is kept it is '', and
-- `id` the class.
CREATE TABLE audit_count_attempt (
    day TEXT COLLATE "C" NOT NULL,
    chain INTEGER NOT NULL,
    server TEXT COLLATE "C" NOT NULL,
    denied BOOLEAN NOT NULL,
    id BYTEA NOT NULL,
    class TEXT COLLATE "C" NOT NULL,
    what TEXT COLLATE "C" NOT NULL,
    count BIGINT NOT NULL,
    first TEXT COLLATE "C" NOT NULL,
    last TEXT COLLATE "C" NOT NULL,
    newest BIGINT NOT NULL,
    PRIMARY KEY (day, chain, server, denied, id)
);
