-- A node of an earlier version may be in the middle of a change.
LOCK TABLE assignments, floors IN ACCESS EXCLUSIVE MODE;

-- Groups of people. A member is a profile's name in small letters: of a user, or of somebody whom a gateway serves.
CREATE TABLE teams (
    name TEXT COLLATE "C" PRIMARY KEY,
    author TEXT COLLATE "C" NOT NULL,
    changed BIGINT NOT NULL
);

CREATE TABLE team_members (
    team TEXT COLLATE "C" NOT NULL REFERENCES teams (name) ON DELETE CASCADE,
    person TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (team, person)
);
CREATE INDEX team_members_person ON team_members (person);

-- What is in force where, and what bounds it: of one `profile`, one `team`, one `server`, or of `all` (the empty name).
CREATE TABLE assigned (
    scope TEXT COLLATE "C" NOT NULL CHECK (scope IN ('profile', 'team', 'server', 'all')),
    subject TEXT COLLATE "C" NOT NULL,
    policy TEXT COLLATE "C" NOT NULL REFERENCES policies (name),
    PRIMARY KEY (scope, subject)
);
INSERT INTO assigned
    SELECT CASE server WHEN '' THEN 'all' ELSE 'server' END, server, policy FROM assignments;
DROP TABLE assignments;
ALTER TABLE assigned RENAME TO assignments;

CREATE TABLE bounds (
    scope TEXT COLLATE "C" NOT NULL CHECK (scope IN ('profile', 'team', 'server', 'all')),
    subject TEXT COLLATE "C" NOT NULL,
    policy TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, subject)
);
INSERT INTO bounds
    SELECT CASE server WHEN '' THEN 'all' ELSE 'server' END, server, policy FROM floors;
DROP TABLE floors;
ALTER TABLE bounds RENAME TO floors;
