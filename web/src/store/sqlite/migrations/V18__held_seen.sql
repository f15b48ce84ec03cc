-- When the process whose proxy has it last said so, by the database's clock; nothing of those that do not say.
ALTER TABLE held ADD COLUMN seen INTEGER;
