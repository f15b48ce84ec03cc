-- Groups of people. A member is a profile's name in small letters: of a user, or of somebody whom a gateway serves.
CREATE TABLE teams (
    name TEXT PRIMARY KEY,
    author TEXT NOT NULL,
    changed INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE team_members (
    team TEXT NOT NULL REFERENCES teams (name) ON DELETE CASCADE,
    person TEXT NOT NULL,
    PRIMARY KEY (team, person)
) STRICT, WITHOUT ROWID;
CREATE INDEX team_members_person ON team_members (person);

-- What is in force where, and what bounds it: of one `profile`, one `team`, one `server`, or of `all` (the empty name).
CREATE TABLE assigned (
    scope TEXT NOT NULL CHECK (scope IN ('profile', 'team', 'server', 'all')),
    subject TEXT NOT NULL,
    policy TEXT NOT NULL REFERENCES policies (name),
    PRIMARY KEY (scope, subject)
) STRICT, WITHOUT ROWID;
INSERT INTO assigned
    SELECT CASE server WHEN '' THEN 'all' ELSE 'server' END, server, policy FROM assignments;
DROP TABLE assignments;
ALTER TABLE assigned RENAME TO assignments;

CREATE TABLE bounds (
    scope TEXT NOT NULL CHECK (scope IN ('profile', 'team', 'server', 'all')),
    subject TEXT NOT NULL,
    policy TEXT NOT NULL,
    PRIMARY KEY (scope, subject)
) STRICT, WITHOUT ROWID;
INSERT INTO bounds
    SELECT CASE server WHEN '' THEN 'all' ELSE 'server' END, server, policy FROM floors;
DROP TABLE floors;
ALTER TABLE bounds RENAME TO floors;
