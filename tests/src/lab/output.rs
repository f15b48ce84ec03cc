//! What a run came to: everything the three witnesses and a test ask about.

use std::time::Duration;

use gig_audit::Event;

use super::audit_log::AuditLog;

/// A run that has ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The exit status, or 128 + n when a signal ended the subject itself.
    pub status: i32,
    /// What came out.
    pub output: Vec<u8>,
    /// What came out on standard error.
    pub errors: Vec<u8>,
    /// The record.
    pub audit: AuditLog,
    /// Packets that reached the internet between start and end.
    pub packets: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Whether the subject was the open one, which enforces and records nothing.
    pub open: bool,
}

impl Finished {
    /// Standard output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// Standard error as text.
    #[must_use]
    pub fn error_text(&self) -> String {
        String::from_utf8_lossy(&self.errors).into_owned()
    }

    /// Demands success.
    ///
    /// # Panics
    /// When the status is not 0.
    #[must_use]
    pub fn success(self) -> Self {
        self.exits(0)
    }

    /// Demands one exit status.
    ///
    /// # Panics
    /// When it is another.
    #[must_use]
    pub fn exits(self, status: i32) -> Self {
        assert_eq!(self.status, status, "exit status; {self}");
        self
    }

    /// Demands that standard output holds `part`.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    pub fn says(self, part: &str) -> Self {
        assert!(
            self.text().contains(part),
            "no {part:?} in the output; {self}"
        );
        self
    }

    /// Demands a record that a request to `host` was let through, and one of what came of it.
    ///
    /// # Panics
    /// When one is missing.
    #[must_use]
    pub fn requested(self, host: &str) -> Self {
        self.recorded(Event::Request, host)
    }

    /// Demands a record that a connection to `host` was let through, and one of what came of it.
    ///
    /// # Panics
    /// When one is missing.
    #[must_use]
    pub fn connected(self, host: &str) -> Self {
        self.recorded(Event::Connect, host)
    }

    fn recorded(self, event: Event, host: &str) -> Self {
        if !self.open {
            assert!(
                self.audit.allowed(event, host),
                "no {event} record for {host}; {self}"
            );
            let ended = self
                .audit
                .of(Event::Response)
                .any(|e| e.host.as_deref() == Some(host));
            assert!(ended, "no outcome recorded for {host}; {self}");
        }
        self
    }

    /// Demands that standard error holds `part`.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    pub fn complains(self, part: &str) -> Self {
        assert!(
            self.error_text().contains(part),
            "no {part:?} in the errors; {self}"
        );
        self
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut = |text: String| text.chars().take(6000).collect::<String>();
        let (output, errors, audit) = (
            cut(self.text()),
            cut(self.error_text()),
            cut(self.audit.to_string()),
        );
        write!(
            f,
            "status {}, {} packets, {:?}\n--- output\n{output}\n--- errors\n{errors}\n--- record\n{audit}",
            self.status, self.packets, self.elapsed
        )
    }
}
