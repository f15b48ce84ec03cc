-- Policies that bound what others allow: of one server, or of all (empty).
CREATE TABLE floors (
    server TEXT COLLATE "C" PRIMARY KEY,
    policy TEXT COLLATE "C" NOT NULL
);

-- Requests that wait in some node's proxy for a person, and what was said. They pass within minutes.
CREATE TABLE held (
    id TEXT COLLATE "C" PRIMARY KEY,
    -- The process whose proxy has it.
    node TEXT COLLATE "C" NOT NULL,
    -- What is asked for, as JSON.
    facts TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    -- `allow`, `deny`, or nothing yet; and who.
    word TEXT COLLATE "C",
    word_by TEXT COLLATE "C"
);
CREATE INDEX held_node ON held (node);
