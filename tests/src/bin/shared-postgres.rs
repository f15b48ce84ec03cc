//! A PostgreSQL that the tests of several processes share: prints the folder of its socket, which
//! `GIG_TEST_POSTGRES` is to name, and ends when nobody holds its standard input open any more.

use std::io::{self, Read as _, Write as _};

use gig_tests::lab::postgres::Postgres;

fn main() -> io::Result<()> {
    let server = Postgres::start();
    writeln!(io::stdout(), "{}", server.path().display())?;
    let mut rest = Vec::new();
    io::stdin().read_to_end(&mut rest)?;
    Ok(())
}
