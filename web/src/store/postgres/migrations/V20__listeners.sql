-- Where a node listens, as other machines reach it: a list in JSON.
ALTER TABLE nodes ADD COLUMN listens TEXT NOT NULL DEFAULT '[]';
