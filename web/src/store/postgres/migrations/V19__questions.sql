-- What one node asks of another, for as long as it waits for the answer: of no worth after that, and perhaps what a
-- program printed, so neither in the log nor on a standby.
CREATE UNLOGGED TABLE questions (
    id TEXT NOT NULL PRIMARY KEY,
    node TEXT NOT NULL,
    question TEXT NOT NULL,
    -- By the database's clock.
    asked BIGINT NOT NULL,
    answer TEXT
);
CREATE INDEX questions_of ON questions (node, asked);
