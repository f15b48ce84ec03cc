-- By which webhooks users of this gig write rules for ever, or for all of a host.
ALTER TABLE webhooks ADD COLUMN rules INTEGER NOT NULL DEFAULT 0;

-- Denials that webhooks were told of, each destination once a day, whichever node saw it.
CREATE TABLE told_denials (
    day TEXT NOT NULL,
    -- A digest of policy, host and port.
    what TEXT NOT NULL,
    PRIMARY KEY (day, what)
) STRICT, WITHOUT ROWID;
