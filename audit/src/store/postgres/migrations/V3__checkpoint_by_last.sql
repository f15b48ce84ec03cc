-- One record's page reads the checkpoints of its own segment, of the many that a chain has after years.
CREATE INDEX audit_checkpoint_by_last ON audit_checkpoint (chain, last, number);
