-- The newest version that a secret had when one of its versions was forgotten.
ALTER TABLE secrets ADD COLUMN given BIGINT NOT NULL DEFAULT 0;
