//! Starting and ending: statuses, signals, streams, terminals, death, and what is left behind.

mod database;
mod death;
mod environment;
mod exit_status;
mod limits;
mod modes;
mod old_records;
mod record;
mod several;
mod signals;
mod streams;
mod suggestion;
mod terminal;
mod upstream;
