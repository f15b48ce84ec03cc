-- What one node asks of another, for as long as it waits for the answer.
CREATE TABLE questions (
    id TEXT NOT NULL PRIMARY KEY,
    node TEXT NOT NULL,
    question TEXT NOT NULL,
    -- By the database's clock.
    asked INTEGER NOT NULL,
    answer TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX questions_of ON questions (node, asked);
