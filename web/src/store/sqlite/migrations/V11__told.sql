-- What webhooks were told, whichever node told it: what they are answered by, and of which denials they know today.
DROP TABLE told_denials;
CREATE TABLE told (
    webhook TEXT NOT NULL,
    -- The id of a request that waits, or `record:` and that of a denial.
    about TEXT NOT NULL,
    -- A digest of policy, host and port of a denial; empty of what waits.
    what TEXT NOT NULL,
    -- telling, told, failed or answered.
    state TEXT NOT NULL,
    -- How often it was begun.
    tries INTEGER NOT NULL,
    -- When its state came to be.
    since INTEGER NOT NULL,
    PRIMARY KEY (webhook, about)
) STRICT, WITHOUT ROWID;
CREATE INDEX told_since ON told (since);
