-- What holds for the whole appliance: a word and its value. `two_person_rule`: `on`, or not there;
-- `network of NAME`: of a server that was removed under that rule.
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
    -- What was there when it was proposed: the role or the policy, and the newest version.
    before TEXT COLLATE "C" NOT NULL,
    built_on BIGINT NOT NULL,
    -- What else must be as it was: a digest of the account or of the server.
    basis TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    person TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    decided_by TEXT COLLATE "C",
    decided BIGINT,
    why TEXT COLLATE "C",
    version BIGINT,
    -- The document, the role, or the policy (empty for none). Last: what a list shows is read without it.
    value TEXT COLLATE "C" NOT NULL
);
CREATE INDEX proposals_state ON proposals (state, id);

-- Whether its owner chose the password, and nobody else has set it since; of older ones nobody knows.
ALTER TABLE users ADD COLUMN own_password BIGINT NOT NULL DEFAULT 0;

-- Who stands behind a token; empty where nobody knows.
ALTER TABLE tokens ADD COLUMN person TEXT COLLATE "C" NOT NULL DEFAULT '';
