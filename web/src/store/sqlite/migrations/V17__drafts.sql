-- What somebody typed into the editor when their session had ended, for a while.
CREATE TABLE drafts (
    -- In small letters.
    person TEXT NOT NULL,
    policy TEXT NOT NULL,
    until INTEGER NOT NULL,
    -- That it is built on.
    version INTEGER NOT NULL,
    document TEXT NOT NULL,
    reason TEXT NOT NULL,
    -- The server for which saving puts it in force.
    assign TEXT NOT NULL,
    PRIMARY KEY (person, policy)
) STRICT, WITHOUT ROWID;
