-- Policies that bound what others allow: of one server, or of all (empty).
CREATE TABLE floors (
    server TEXT PRIMARY KEY,
    policy TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Requests that wait in some node's proxy for a person, and what was said. They pass within minutes.
CREATE TABLE held (
    id TEXT PRIMARY KEY,
    -- The process whose proxy has it.
    node TEXT NOT NULL,
    -- What is asked for, as JSON.
    facts TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    -- `allow`, `deny`, or nothing yet; and who.
    word TEXT,
    word_by TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX held_node ON held (node);
