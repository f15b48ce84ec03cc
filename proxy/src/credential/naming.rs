//! What is called a credential: how names of fields and members end that hold one, in lower case and without
//! what divides their words. Where a body is read for sentinels and where an answer is read for tokens go by
//! the same list; the first goes by some words more, since what it finds is a sentinel anyway.

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
pub(super) const SENT: [&str; 6] = [
    "key",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
];
/// The same, where it is all that the name says: `bypass` is none.
pub(super) const WHOLE: [&str; 2] = ["auth", "pass"];
