-- Searches of the record that somebody keeps for all who read it.
CREATE TABLE searches (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    -- As it stands behind `?` in the console's address.
    query TEXT NOT NULL,
    author TEXT NOT NULL,
    created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
