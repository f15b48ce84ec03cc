-- Whom a sign-on provider vouches for: what it calls itself and them. Empty for who has a password.
ALTER TABLE users ADD COLUMN issuer TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN subject TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX users_account ON users (issuer, subject) WHERE subject <> '';

-- How a session began, in words.
ALTER TABLE sessions ADD COLUMN began TEXT NOT NULL DEFAULT 'password';

-- What a token is narrowed to, below its role: words and names, separated by spaces; empty for neither.
ALTER TABLE tokens ADD COLUMN scopes TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN servers TEXT NOT NULL DEFAULT '';
