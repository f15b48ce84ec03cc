-- Sandboxes that somebody asked to end at a node that does not have them.
CREATE TABLE stops (
    sandbox TEXT NOT NULL PRIMARY KEY,
    -- When it was asked.
    asked BIGINT NOT NULL
);
