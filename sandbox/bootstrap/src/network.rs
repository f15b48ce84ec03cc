//! Is this the network that was promised? Read from the sandbox's own `/proc`.

use crate::orders::NetworkCheck;
use crate::sys;

/// In words, what is wrong.
pub fn check(wanted: NetworkCheck) -> Result<(), String> {
    let read = |path| {
        sys::read_file(path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .map_err(|errno| format!("its network cannot be looked at: {}", sys::words(errno)))
    };
    let devices = read(c"/proc/self/net/dev")?;
    let mut names: Vec<&str> = devices
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim())
        .collect();
    names.sort_unstable_by_key(|name| *name != "lo");
    let gateway = match (wanted, names.as_slice()) {
        (NetworkCheck::Disconnected, ["lo"]) => return Ok(()),
        (NetworkCheck::Gateway(address), ["lo", _]) => address,
        (_, found) => return Err(format!("its network has the wrong interfaces: {found:?}")),
    };
    let routes = read(c"/proc/self/net/route")?;
    let defaults: Vec<&str> = routes
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (_, destination, gateway) = (fields.next()?, fields.next()?, fields.next()?);
            let mask = fields.nth(4)?;
            (destination == "00000000" && mask == "00000000").then_some(gateway)
        })
        .collect();
    // The kernel prints the address as a number in its own byte order.
    let expected = format!("{:08X}", u32::from_ne_bytes(gateway));
    if defaults == [expected.as_str()] {
        Ok(())
    } else {
        Err(format!(
            "its network has the wrong default route: {defaults:?}"
        ))
    }
}
