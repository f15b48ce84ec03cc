//! A kernel that only notes what it was asked: the pool's rules need no
//! privileges to be tested. A fake rather than a mock: it answers every call
//! as the real one does, and tests look at what was done, not at how.

use std::os::fd::BorrowedFd;

use crate::hub_protocol::{Failure, Step};
use crate::kernel::Kernel;
use crate::plan::SlotPlan;

/// Notes calls.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    pub(crate) calls: Vec<String>,
    pub(crate) refuse_detach: bool,
}

impl Kernel for Fake {
    type Namespace = ();

    fn attach(&mut self, slot: &SlotPlan) -> Result<(), Failure> {
        self.calls.push(format!("attach {}", slot.slot));
        Ok(())
    }

    fn detach(&mut self, slot: &SlotPlan, (): &()) -> Result<(), Failure> {
        if self.refuse_detach {
            return Err(Failure::new(
                Step::Link,
                Some(libc::EBUSY),
                "refused by the test",
            ));
        }
        self.calls.push(format!("detach {}", slot.slot));
        Ok(())
    }

    fn remove(&mut self, slot: &SlotPlan) -> Result<(), Failure> {
        self.calls.push(format!("remove {}", slot.slot));
        Ok(())
    }

    fn disconnected(&mut self) -> Result<(), Failure> {
        self.calls.push("disconnected".to_owned());
        Ok(())
    }

    fn handle<'a>(&self, (): &'a ()) -> Option<BorrowedFd<'a>> {
        None
    }
}
