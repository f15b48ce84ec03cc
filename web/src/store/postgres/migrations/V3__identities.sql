-- Whom a sign-on provider vouches for: what it calls itself and them. Empty for who has a password.
ALTER TABLE users ADD COLUMN issuer TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN subject TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE UNIQUE INDEX users_account ON users (issuer, subject) WHERE subject <> '';

-- How a session began, in words.
ALTER TABLE sessions ADD COLUMN began TEXT COLLATE "C" NOT NULL DEFAULT 'password';
