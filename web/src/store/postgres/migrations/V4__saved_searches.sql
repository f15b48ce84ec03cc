-- Searches of the record that somebody keeps for all who read it.
CREATE TABLE searches (
    id TEXT COLLATE "C" PRIMARY KEY,
    title TEXT COLLATE "C" NOT NULL,
    -- As it stands behind `?` in the console's address.
    query TEXT COLLATE "C" NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL
);
