-- What holds for the whole appliance: a word and its value. `two_person_rule`: `on`, or not there;
-- `network of NAME`: of a server that was removed under that rule.
CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Changes that wait for a second person, and what became of them. Never emptied: ids are counted.
CREATE TABLE proposals (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    -- The policy, the user, or the server (empty for all).
    subject TEXT NOT NULL,
    -- What was there when it was proposed: the role or the policy, and the newest version.
    before TEXT NOT NULL,
    built_on INTEGER NOT NULL,
    -- What else must be as it was: a digest of the account or of the server.
    basis TEXT NOT NULL,
    reason TEXT NOT NULL,
    author TEXT NOT NULL,
    person TEXT NOT NULL,
    created INTEGER NOT NULL,
    state TEXT NOT NULL,
    decided_by TEXT,
    decided INTEGER,
    why TEXT,
    version INTEGER,
    -- The document, the role, or the policy (empty for none). Last: what a list shows is read without it.
    value TEXT NOT NULL
) STRICT;
CREATE INDEX proposals_state ON proposals (state, id);

-- Whether its owner chose the password, and nobody else has set it since; of older ones nobody knows.
ALTER TABLE users ADD COLUMN own_password INTEGER NOT NULL DEFAULT 0;

-- Who stands behind a token; of one that a token made before, nobody knows.
ALTER TABLE tokens ADD COLUMN person TEXT NOT NULL DEFAULT '';
UPDATE tokens SET person = CASE
    WHEN author LIKE 'token %' THEN ''
    WHEN author LIKE '% %' THEN 'owner of this machine'
    ELSE author END;
