-- Of which webhook an answer was heard: one that says much keeps no other from being heard.
ALTER TABLE heard ADD COLUMN webhook TEXT NOT NULL DEFAULT '';
CREATE INDEX heard_webhook ON heard (webhook);
-- How often somebody failed to sign in lately, at whichever node.
CREATE TABLE tries (
    -- A digest of a name and an address, or of one of both, or of a browser that was here before.
    what BLOB NOT NULL PRIMARY KEY,
    -- Of the first.
    since INTEGER NOT NULL,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tries_since ON tries (since);
-- When somebody began to answer what a webhook was told: whose node died meanwhile keeps nobody from it for ever.
ALTER TABLE told ADD COLUMN begun INTEGER;
