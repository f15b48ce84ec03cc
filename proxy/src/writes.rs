//! Writing handed on as it is, for streams that only change how they are read.
//!
//! Promises that no write is split, copied or delayed on its way; what is read is its users' own
//! matter.

/// The methods of `AsyncWrite` for a stream whose field `inner` takes every write.
macro_rules! pass_writes {
    () => {
        fn poll_write(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
            octets: &[u8],
        ) -> std::task::Poll<std::io::Result<usize>> {
            std::pin::Pin::new(&mut self.inner).poll_write(cx, octets)
        }

        fn poll_write_vectored(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
            slices: &[std::io::IoSlice<'_>],
        ) -> std::task::Poll<std::io::Result<usize>> {
            let inner = std::pin::Pin::new(&mut self.inner);
            match slices {
                // Of a socket: send(2) does without what writev(2) does for files.
                [slice] => inner.poll_write(cx, slice),
                _ => inner.poll_write_vectored(cx, slices),
            }
        }

        fn is_write_vectored(&self) -> bool {
            self.inner.is_write_vectored()
        }

        fn poll_flush(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::pin::Pin::new(&mut self.inner).poll_flush(cx)
        }

        fn poll_shutdown(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::pin::Pin::new(&mut self.inner).poll_shutdown(cx)
        }
    };
}
pub(crate) use pass_writes;
