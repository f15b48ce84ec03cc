-- Where people are told that something waits. What signs a message is a file of each node.
CREATE TABLE webhooks (
    name TEXT COLLATE "C" PRIMARY KEY,
    -- `generic` or `slack`.
    kind TEXT COLLATE "C" NOT NULL,
    -- Empty: as a file of each node says.
    url TEXT COLLATE "C" NOT NULL,
    -- Who may answer from there, parted by blanks.
    answerers TEXT COLLATE "C" NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    changed BIGINT NOT NULL
);
