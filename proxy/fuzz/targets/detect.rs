//! The first octets of a connection: whatever they are taken for, the next reader gets all of them.

use std::{io::Cursor, time::Duration};

use gig_proxy::detect::{Patience, sniff};
use tokio::io::AsyncReadExt;

/// The octets of one connection, which then ends.
pub fn run(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let patience = Patience {
        silence: Duration::from_secs(60),
        complete: Duration::from_secs(60),
    };
    runtime.block_on(async {
        let Ok(sniffed) = sniff(Cursor::new(data), patience).await else {
            assert!(data.is_empty(), "only nothing is an error");
            return;
        };
        let (mut stream, mut rest) = (sniffed.stream, Vec::new());
        stream.read_to_end(&mut rest).await.expect("from memory");
        assert_eq!(rest, data);
    });
}
