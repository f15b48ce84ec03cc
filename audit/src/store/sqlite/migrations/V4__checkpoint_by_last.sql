-- One record's page reads the checkpoints of its own segment, of the many that a chain has after years.
CREATE INDEX checkpoint_by_last ON checkpoint (chain, last, number);
