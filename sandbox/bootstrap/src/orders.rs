//! What `gig` tells the bootstrap, and how it is written down.
//!
//! One file for both sides: the bootstrap compiles it as a module, the
//! `gig-sandbox` crate by path. Both are built from one tree and travel in one
//! program, so the format has no version. Reading never panics and refuses
//! anything that is short, long or unknown.

/// Descriptor of the socket that the first process keeps.
pub(crate) const CONTROL_FD: i32 = 3;
/// Descriptor of the socket that the program's process keeps until it execs.
pub(crate) const PROGRAM_FD: i32 = 4;
/// Descriptor of the written orders.
pub(crate) const ORDERS_FD: i32 = 5;
/// First of the program's three standard streams.
pub(crate) const STDIO_FD: i32 = 6;
/// Descriptor that the bootstrap itself is executed from.
pub(crate) const BOOTSTRAP_FD: i32 = 9;
/// First descriptor that is free for the engine's own use.
pub(crate) const ENGINE_FD: i32 = 10;

/// From either process: it is there. The kernel adds its pid.
pub(crate) const HELLO: u8 = b'H';
/// To the program's process: the network is bound, go on.
pub(crate) const GO: u8 = b'G';
/// From the program's process: an exit code, then words.
pub(crate) const FAILED: u8 = b'E';
/// To the first process: a signal number for the program.
pub(crate) const SIGNAL: u8 = b'S';
/// From the first process, where the program has a terminal: it stopped, and not because it was told to; the signal's
/// number, and how often it has been told to continue, modulo 256.
pub(crate) const STOPPED: u8 = b'Z';
/// From the first process: the program's wait status, little-endian.
pub(crate) const ENDED: u8 = b'X';

/// The id the program ends as: `nobody`, the last id of a full range.
pub(crate) const PROGRAM_ID: u32 = 65_534;

/// Everything the bootstrap needs to know.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Orders {
    /// What the network must look like.
    pub(crate) network: NetworkCheck,
    /// Whether the process starts as id 0 and must become [`PROGRAM_ID`].
    pub(crate) set_ids: bool,
    /// Whether the first of the standard streams that is a terminal becomes the controlling one.
    pub(crate) controlling_terminal: bool,
    /// Permissions that new files are not given (umask(2)).
    pub(crate) file_mask: u32,
    /// Landlock rights that are refused everywhere; zero for no Landlock.
    pub(crate) landlock_fs: u64,
    /// Landlock scopes.
    pub(crate) landlock_scoped: u64,
    /// What of `/proc` is to be covered, when the engine did not.
    pub(crate) masks: Vec<Masked>,
    /// Directories that the program is to own, when ids are set.
    pub(crate) owned: Vec<Vec<u8>>,
    /// What must stand at which path: a mount whose source was exchanged while it was made shows
    /// something else.
    pub(crate) shown: Vec<Shown>,
    /// Working directory.
    pub(crate) workdir: Vec<u8>,
    /// Program: a path, or a name to look up.
    pub(crate) program: Vec<u8>,
    /// Where to look it up.
    pub(crate) path: Vec<u8>,
    /// Arguments, the program's own name first.
    pub(crate) args: Vec<Vec<u8>>,
    /// Environment, `NAME=value`.
    pub(crate) env: Vec<Vec<u8>>,
    /// Limits.
    pub(crate) rlimits: Vec<Limit>,
    /// Filters, each a run of 8-byte BPF instructions, in the order of loading.
    pub(crate) filters: Vec<Vec<u8>>,
}

/// A file or directory at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Inside.
    pub(crate) path: Vec<u8>,
    /// Its device.
    pub(crate) device: u64,
    /// Its number on the device.
    pub(crate) inode: u64,
}

/// A path of `/proc` that says more about the host than a program needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Masked {
    /// Inside.
    pub(crate) path: Vec<u8>,
    /// Whether it is a directory.
    pub(crate) directory: bool,
}

/// One resource limit, soft and hard alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    /// `RLIMIT_*`.
    pub(crate) resource: u32,
    /// Its value.
    pub(crate) value: u64,
}

/// What the network must look like before the program starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum NetworkCheck {
    /// `lo` and nothing else.
    #[default]
    Disconnected,
    /// `lo`, one more, and one default route by this address.
    Gateway([u8; 4]),
}

impl Orders {
    /// As bytes.
    #[must_use]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4096);
        match self.network {
            NetworkCheck::Disconnected => out.push(0),
            NetworkCheck::Gateway(address) => {
                out.push(1);
                out.extend_from_slice(&address);
            }
        }
        out.push(u8::from(self.set_ids));
        out.push(u8::from(self.controlling_terminal));
        out.extend_from_slice(&self.file_mask.to_le_bytes());
        out.extend_from_slice(&self.landlock_fs.to_le_bytes());
        out.extend_from_slice(&self.landlock_scoped.to_le_bytes());
        put_count(&mut out, self.masks.len());
        for mask in &self.masks {
            put(&mut out, &mask.path);
            out.push(u8::from(mask.directory));
        }
        put_list(&mut out, &self.owned);
        put_count(&mut out, self.shown.len());
        for shown in &self.shown {
            put(&mut out, &shown.path);
            out.extend_from_slice(&shown.device.to_le_bytes());
            out.extend_from_slice(&shown.inode.to_le_bytes());
        }
        put(&mut out, &self.workdir);
        put(&mut out, &self.program);
        put(&mut out, &self.path);
        put_list(&mut out, &self.args);
        put_list(&mut out, &self.env);
        put_count(&mut out, self.rlimits.len());
        for limit in &self.rlimits {
            out.extend_from_slice(&limit.resource.to_le_bytes());
            out.extend_from_slice(&limit.value.to_le_bytes());
        }
        put_list(&mut out, &self.filters);
        out
    }

    /// From bytes; `None` if they are not exactly one set of orders.
    #[must_use]
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = Reader(bytes);
        let network = match rest.byte()? {
            0 => NetworkCheck::Disconnected,
            1 => NetworkCheck::Gateway(rest.array()?),
            _ => return None,
        };
        let orders = Self {
            network,
            set_ids: rest.flag()?,
            controlling_terminal: rest.flag()?,
            file_mask: u32::from_le_bytes(rest.array()?),
            landlock_fs: u64::from_le_bytes(rest.array()?),
            landlock_scoped: u64::from_le_bytes(rest.array()?),
            masks: rest.masks()?,
            owned: rest.list()?,
            shown: rest.shown()?,
            workdir: rest.bytes()?,
            program: rest.bytes()?,
            path: rest.bytes()?,
            args: rest.list()?,
            env: rest.list()?,
            rlimits: rest.limits()?,
            filters: rest.list()?,
        };
        rest.0.is_empty().then_some(orders)
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    // A count that does not fit makes the orders unreadable, never shorter.
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_list(out: &mut Vec<u8>, list: &[Vec<u8>]) {
    put_count(out, list.len());
    for bytes in list {
        put(out, bytes);
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.array()?)).ok()
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let count = self.count()?;
        Some(self.take(count)?.to_vec())
    }

    fn list(&mut self) -> Option<Vec<Vec<u8>>> {
        let count = self.count()?;
        (0..count).map(|_| self.bytes()).collect()
    }

    fn masks(&mut self) -> Option<Vec<Masked>> {
        let count = self.count()?;
        (0..count)
            .map(|_| {
                Some(Masked {
                    path: self.bytes()?,
                    directory: self.flag()?,
                })
            })
            .collect()
    }

    fn shown(&mut self) -> Option<Vec<Shown>> {
        let count = self.count()?;
        (0..count)
            .map(|_| {
                Some(Shown {
                    path: self.bytes()?,
                    device: u64::from_le_bytes(self.array()?),
                    inode: u64::from_le_bytes(self.array()?),
                })
            })
            .collect()
    }

    fn limits(&mut self) -> Option<Vec<Limit>> {
        let count = self.count()?;
        (0..count)
            .map(|_| {
                Some(Limit {
                    resource: u32::from_le_bytes(self.array()?),
                    value: u64::from_le_bytes(self.array()?),
                })
            })
            .collect()
    }
}
