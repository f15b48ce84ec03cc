-- One hash chain a machine. `seq` and `hash` are its last record's: what was cut off behind shows.
CREATE TABLE chain (
    chain INTEGER PRIMARY KEY CHECK (chain BETWEEN 1 AND 4194303),
    node TEXT NOT NULL UNIQUE,
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;

-- Lines as they were written, without their newline. `position` is chain * 2^40 + seq.
CREATE TABLE record (
    position INTEGER PRIMARY KEY,
    line TEXT NOT NULL
) STRICT;

-- Blocks whose terms are written. `block` is position / 4096.
CREATE TABLE block (
    block INTEGER PRIMARY KEY,
    first_time TEXT NOT NULL,
    last_time TEXT NOT NULL
) STRICT;

-- Which places of a block have a term. Block first, so that writing a block touches neighbouring pages only.
CREATE TABLE posting (
    block INTEGER NOT NULL,
    term INTEGER NOT NULL,
    places BLOB NOT NULL,
    PRIMARY KEY (block, term)
) STRICT, WITHOUT ROWID;
