-- Answers of webhooks that were heard, for as long as their signatures hold, by whichever node.
CREATE TABLE heard (
    -- A digest of webhook and signature.
    digest BYTEA NOT NULL PRIMARY KEY,
    -- When the signature holds no more.
    until BIGINT NOT NULL
);
CREATE INDEX heard_until ON heard (until);
