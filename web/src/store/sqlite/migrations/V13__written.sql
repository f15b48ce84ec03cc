-- What each person wrote of documents on one day, in octets: nobody fills the disk.
CREATE TABLE written (
    -- In small letters.
    person TEXT NOT NULL,
    -- Since 1970.
    day INTEGER NOT NULL,
    octets INTEGER NOT NULL,
    PRIMARY KEY (person, day)
) STRICT, WITHOUT ROWID;
