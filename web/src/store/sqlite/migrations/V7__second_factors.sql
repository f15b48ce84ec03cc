-- What a device shows codes of, sealed with a key of the vault: who reads the database makes no code.
CREATE TABLE second_factors (
    person TEXT PRIMARY KEY COLLATE NOCASE REFERENCES users (name) ON DELETE CASCADE,
    sealed BLOB NOT NULL,
    created INTEGER NOT NULL,
    -- The step of the last code that was used: no code is used twice.
    last_step INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Codes that are written down, as digests; each is of use once.
CREATE TABLE recovery_codes (
    person TEXT NOT NULL COLLATE NOCASE REFERENCES second_factors (person) ON DELETE CASCADE,
    digest BLOB NOT NULL,
    used INTEGER,
    PRIMARY KEY (person, digest)
) STRICT, WITHOUT ROWID;
