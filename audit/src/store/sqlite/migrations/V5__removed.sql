-- When the newest record of a class was written that was removed of a chain.
CREATE TABLE removed (
    chain INTEGER NOT NULL,
    class TEXT NOT NULL,
    newest TEXT NOT NULL,
    PRIMARY KEY (chain, class)
) STRICT, WITHOUT ROWID;

-- Blocks of which records were removed and whose terms still say what was in them.
CREATE TABLE untidy (
    block INTEGER PRIMARY KEY
) STRICT;
