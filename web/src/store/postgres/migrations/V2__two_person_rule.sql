-- What holds for the whole appliance: a word and its value. `two_person_rule`: `on`, or not there.
CREATE TABLE settings (
    name TEXT COLLATE "C" PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL
);

-- Changes that wait for a second person, and what became of them. Never emptied: ids are counted.
CREATE TABLE proposals (
    id BIGINT PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    -- The policy, the user, or the server (empty for all).
    subject TEXT COLLATE "C" NOT NULL,
    -- The document, the role, or the policy (empty for none).
    value TEXT COLLATE "C" NOT NULL,
    -- What was there when it was proposed: the role or the policy, and the newest version.
    before TEXT COLLATE "C" NOT NULL,
    built_on BIGINT NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    person TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    decided_by TEXT COLLATE "C",
    decided BIGINT,
    why TEXT COLLATE "C",
    version BIGINT
);
CREATE INDEX proposals_state ON proposals (state, id);

-- Who stands behind a token; empty where nobody knows.
ALTER TABLE tokens ADD COLUMN person TEXT COLLATE "C" NOT NULL DEFAULT '';
