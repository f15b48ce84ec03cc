-- Requests that are made once (Idempotency-Key), and what was answered. Kept for a day.
CREATE TABLE answers (
    caller TEXT NOT NULL,
    key_digest BLOB NOT NULL,
    attempt TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    -- `running`, `acting`, `made`, `done`, `shown`.
    state TEXT NOT NULL,
    -- What the caller might then.
    may TEXT NOT NULL,
    created INTEGER NOT NULL,
    status INTEGER,
    headers TEXT,
    body BLOB,
    PRIMARY KEY (caller, key_digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX answers_created ON answers (created);
