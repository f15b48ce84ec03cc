-- When the newest record of a class was written that was removed of a chain.
CREATE TABLE audit_removed (
    chain INTEGER NOT NULL,
    class TEXT COLLATE "C" NOT NULL,
    newest TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (chain, class)
);

-- Blocks of which records were removed and whose terms still say what was in them.
CREATE TABLE audit_untidy (
    block BIGINT PRIMARY KEY
);
