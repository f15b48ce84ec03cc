-- What holds for the whole appliance: a word and its value. `two_person_rule`: `on`, or not there.
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
    -- The document, the role, or the policy (empty for none).
    value TEXT NOT NULL,
    -- What was there when it was proposed: the role or the policy, and the newest version.
    before TEXT NOT NULL,
    built_on INTEGER NOT NULL,
    reason TEXT NOT NULL,
    author TEXT NOT NULL,
    person TEXT NOT NULL,
    created INTEGER NOT NULL,
    state TEXT NOT NULL,
    decided_by TEXT,
    decided INTEGER,
    why TEXT,
    version INTEGER
) STRICT;
CREATE INDEX proposals_state ON proposals (state, id);

-- Who stands behind a token; of one that a token made before, nobody knows.
ALTER TABLE tokens ADD COLUMN person TEXT NOT NULL DEFAULT '';
UPDATE tokens SET person = CASE
    WHEN author LIKE 'token %' THEN ''
    WHEN author LIKE '% %' THEN 'owner of this machine'
    ELSE author END;
