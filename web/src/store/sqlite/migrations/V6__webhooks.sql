-- Where people are told that something waits. What signs a message is a file of each node.
CREATE TABLE webhooks (
    name TEXT PRIMARY KEY,
    -- `generic` or `slack`.
    kind TEXT NOT NULL,
    -- Empty: as a file of each node says.
    url TEXT NOT NULL,
    -- Who may answer from there, parted by blanks.
    answerers TEXT NOT NULL,
    author TEXT NOT NULL,
    changed INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
