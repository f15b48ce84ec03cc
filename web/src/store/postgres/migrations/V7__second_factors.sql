-- What a device shows codes of, sealed with a key of the vault: who reads the database makes no code.
CREATE TABLE second_factors (
    person TEXT COLLATE "C" PRIMARY KEY REFERENCES users (name) ON DELETE CASCADE,
    sealed BYTEA NOT NULL,
    created BIGINT NOT NULL,
    -- The step of the last code that was used: no code is used twice.
    last_step BIGINT NOT NULL
);

-- Codes that are written down, as digests; each is of use once.
CREATE TABLE recovery_codes (
    person TEXT COLLATE "C" NOT NULL REFERENCES second_factors (person) ON DELETE CASCADE,
    digest BYTEA NOT NULL,
    used BIGINT,
    PRIMARY KEY (person, digest)
);
