-- Of which webhook an answer was heard: one that says much keeps no other from being heard.
ALTER TABLE heard ADD COLUMN webhook TEXT NOT NULL DEFAULT '';
CREATE INDEX heard_webhook ON heard (webhook);
