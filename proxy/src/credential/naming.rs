//! What is called a credential: how names of fields and members end that hold one, in lower case and without
//! what divides their words. Where a body is read for sentinels and where an answer is read for tokens go by
//! the same list; the first goes by some words more, since what it finds is a sentinel anyway.

/// Whether a name, without what divides its words, says so of what a program sends, by more words than those of
/// [`CREDENTIALS`].
pub(super) fn is_sent(bare: &[u8]) -> bool {
    let whole = || WHOLE.iter().any(|word| bare == word.as_bytes());
    SENT.iter().any(|word| bare.ends_with(word.as_bytes())) || whole()
}

/// Of what opens something, whoever has it.
pub(super) const CREDENTIALS: [&str; 14] = [
    "token",
    "secret",
    "jwt",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "sessionkey",
    "assertion",
    "webhookurl",
];
/// Of what may be one in what a program sends.
const SENT: [&str; 6] = [
    "key",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
];
/// The same, where it is all that the name says: `bypass` is none.
const WHOLE: [&str; 2] = ["auth", "pass"];
