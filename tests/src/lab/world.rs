//! One test's world, and what a test asks of it.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr, TcpStream},
    os::unix::fs::chown,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, Ordering},
    },
};

use tempfile::TempDir;

use super::{
    authority::{Authority, Leaf},
    http_origin::{Exchange, HttpOrigin, Request},
    network::{Network, RESOLVER, Side, internet_address},
    nginx::{Nginx, Site},
    open_proxy,
    place::{self, User},
    raw_origin::{Conversation, RawOrigin},
    resolver::Resolver,
    subject::Subject,
};

/// A host, an internet, names, certificates: everything a test stands on.
#[derive(Debug)]
pub struct Lab {
    /// The two namespaces.
    pub network: Arc<Network>,
    /// The names of the internet.
    pub resolver: Resolver,
    /// Who signs the origins' certificates.
    pub authority: Authority,
    root_file: PathBuf,
    user: User,
    counter: AtomicU8,
    open_proxy: OnceLock<SocketAddr>,
    // Last, so that the servers whose files these are end first.
    scratch: TempDir,
}

impl Lab {
    /// A world with IPv4 only, in which every packet that leaves the host counts.
    #[must_use]
    pub fn new() -> Self {
        Self::make(false)
    }

    /// A world with IPv6 as well; its neighbour discovery makes packet counts meaningless.
    #[must_use]
    pub fn with_ipv6() -> Self {
        Self::make(true)
    }

    fn make(ipv6: bool) -> Self {
        let user = User::of_this_run();
        let scratch = place::scratch(user);
        let resolv_conf = scratch.path().join("resolv.conf");
        fs::write(&resolv_conf, format!("nameserver {RESOLVER}\n")).expect("write resolv.conf");
        let network = Arc::new(Network::start(&resolv_conf, ipv6));
        let names = network.datagram(Side::Internet, (RESOLVER, 53).into());
        let authority = Authority::new();
        let root_file = scratch.path().join("origins.pem");
        fs::write(&root_file, authority.pem()).expect("write the root");
        let lab = Self {
            network,
            resolver: Resolver::start(names),
            authority,
            root_file,
            user,
            counter: AtomicU8::new(1),
            open_proxy: OnceLock::new(),
            scratch,
        };
        fs::create_dir(lab.home()).expect("make a home");
        chown(lab.home(), Some(user.uid), Some(user.gid)).expect("give it to the user");
        lab
    }

    /// The program under test.
    #[must_use]
    pub fn gig(&self) -> Subject<'_> {
        Subject::new(self)
    }

    /// Who the subject runs as.
    #[must_use]
    pub const fn user(&self) -> User {
        self.user
    }

    /// The home of that user.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.scratch.path().join("home")
    }

    /// The file with the root that signs origins.
    #[must_use]
    pub fn root_file(&self) -> &Path {
        &self.root_file
    }

    /// A folder or file name that nobody uses yet.
    #[must_use]
    pub fn fresh_path(&self, name: &str) -> PathBuf {
        let n = self.counter.fetch_add(1, Ordering::Relaxed);
        self.scratch.path().join(format!("{n}-{name}"))
    }

    /// A new folder that belongs to the subject's user.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.fresh_path(name);
        fs::create_dir(&path).expect("make a folder");
        chown(&path, Some(self.user.uid), Some(self.user.gid)).expect("give it to the user");
        path
    }

    /// A new file that everybody can read.
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder(name).join(name);
        fs::write(&path, content).expect("write a file");
        path
    }

    /// Gives `host` a new address of the internet.
    #[must_use]
    pub fn address_for(&self, host: &str) -> IpAddr {
        let address = internet_address(self.counter.fetch_add(1, Ordering::Relaxed));
        self.resolver.set(host, &[address]);
        address
    }

    /// nginx with h2 on ports 80 and 443 of a new address, under these names.
    #[must_use]
    pub fn nginx(&self, names: &[&str]) -> Nginx {
        self.nginx_with(names, true, "")
    }

    /// The same with more configuration, and h2 as wished.
    #[must_use]
    pub fn nginx_with(&self, names: &[&str], h2: bool, extra: &str) -> Nginx {
        let address = internet_address(self.counter.fetch_add(1, Ordering::Relaxed));
        for name in names {
            self.resolver.set(name, &[address]);
        }
        let leaf = self.authority.leaf(names);
        let site = Site {
            address,
            leaf: &leaf,
            h2,
            extra,
        };
        Nginx::start(&self.network, self.folder("nginx"), &site)
    }

    /// A scripted HTTPS/1.1 origin at port 443 of a new address.
    #[must_use]
    pub fn https(
        &self,
        host: &str,
        handle: impl Fn(&mut Request, &mut Exchange<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> HttpOrigin {
        let address = self.address_for(host);
        let tls = self.leaf(host).server_config(&["http/1.1"]);
        let listener = self.network.listen(Side::Internet, (address, 443).into());
        HttpOrigin::start(listener, Some(tls), handle)
    }

    /// A scripted clear-text HTTP/1.1 origin at port 80 of a new address.
    #[must_use]
    pub fn http(
        &self,
        host: &str,
        handle: impl Fn(&mut Request, &mut Exchange<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> HttpOrigin {
        let address = self.address_for(host);
        let listener = self.network.listen(Side::Internet, (address, 80).into());
        HttpOrigin::start(listener, None, handle)
    }

    /// A clear-text origin of any protocol.
    #[must_use]
    pub fn tcp(
        &self,
        at: SocketAddr,
        converse: impl Fn(&mut Conversation) -> io::Result<()> + Send + Sync + 'static,
    ) -> RawOrigin {
        RawOrigin::start(self.network.listen(Side::Internet, at), None, converse)
    }

    /// A TLS origin of any protocol.
    #[must_use]
    pub fn tls(
        &self,
        at: SocketAddr,
        names: &[&str],
        alpn: &[&str],
        converse: impl Fn(&mut Conversation) -> io::Result<()> + Send + Sync + 'static,
    ) -> RawOrigin {
        let tls = self.authority.leaf(names).server_config(alpn);
        RawOrigin::start(self.network.listen(Side::Internet, at), Some(tls), converse)
    }

    /// A certificate for one name.
    #[must_use]
    pub fn leaf(&self, host: &str) -> Leaf {
        self.authority.leaf(&[host])
    }

    /// The open subject's proxy, started when it is first asked for.
    pub(super) fn open_proxy(&self) -> SocketAddr {
        *self.open_proxy.get_or_init(|| {
            let listener = self
                .network
                .listen(Side::Host, ([127, 0, 0, 1], 8081).into());
            let address = listener.local_addr().expect("its address");
            let network = Arc::clone(&self.network);
            let dial = move |at| network.inside(Side::Host, || TcpStream::connect(at));
            open_proxy::start(listener, self.resolver.clone(), Arc::new(dial));
            address
        })
    }
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}
