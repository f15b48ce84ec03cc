-- Requests that are made once (Idempotency-Key), and what was answered. Kept for a day.
CREATE TABLE answers (
    caller TEXT COLLATE "C" NOT NULL,
    key_digest BYTEA NOT NULL,
    attempt TEXT COLLATE "C" NOT NULL,
    fingerprint BYTEA NOT NULL,
    -- `running`, `acting`, `made`, `done`, `shown`.
    state TEXT COLLATE "C" NOT NULL,
    -- What the caller might then.
    may TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    status BIGINT,
    headers TEXT COLLATE "C",
    body BYTEA,
    PRIMARY KEY (caller, key_digest)
);
CREATE INDEX answers_created ON answers (created);
