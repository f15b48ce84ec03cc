-- Signed statements on segments of a chain, in order. `last` is the segment's last place, as the line says.
CREATE TABLE checkpoint (
    chain INTEGER NOT NULL,
    number INTEGER NOT NULL,
    last INTEGER NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (chain, number)
) STRICT, WITHOUT ROWID;
