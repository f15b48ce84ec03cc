-- What each person wrote of documents on one day, in octets: nobody fills the disk.
CREATE TABLE written (
    -- In small letters.
    person TEXT COLLATE "C" NOT NULL,
    -- Since 1970.
    day BIGINT NOT NULL,
    octets BIGINT NOT NULL,
    PRIMARY KEY (person, day)
);
