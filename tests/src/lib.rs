//! The lab: an Internet of its own for each test, real origins in it, and the program under test.
//!
//! Promises: nothing a test sends can leave the machine, because the lab's networks are namespaces
//! without an uplink; nothing outlives the test, because every process is tied to a handle that ends
//! it. Leaves to the test targets: what is run and what must come of it.
pub mod lab;
