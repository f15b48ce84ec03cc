//! The contenders: nothing at all, a plain tunnel, gig in its two ways, and the peers that are
//! installed. Each has a load agent, a way to the origin, and the processes whose CPU is counted.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::Path,
    process::{ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::Duration,
};

use crate::{
    bearer,
    order::{Answer, Dial, Figures, GO, HOST, Load, Order, PROXY, Route, fresh_name},
    origin::Origin,
    outcome::{Outcome, doing},
    path::BarePath,
    peers,
    process::{Core, Guard, cpu_seconds, free_port, memory_kib, pinned, wait_for_port},
};

/// One way between load and origin.
pub(crate) struct Contender {
    /// How the table calls it.
    pub(crate) name: &'static str,
    /// What is dialled for the origin's answers.
    pub(crate) dial: Dial,
    /// What is dialled for the sink, and at which port it is named.
    pub(crate) sink_dial: Dial,
    /// It speaks HTTP/2 to its client.
    pub(crate) h2: bool,
    proxy: Option<u32>,
    agent: Agent,
    _proxy_guard: Option<Guard>,
}

/// Figures of one order and the CPU seconds it cost the proxy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// The agent's figures.
    pub(crate) figures: Figures,
    /// The proxy's CPU seconds; `None` where there is no proxy.
    pub(crate) cpu: Option<f64>,
}

impl Contender {
    /// No proxy.
    pub(crate) fn direct(origin: &Origin) -> Outcome<Self> {
        let dial = Dial::To(loopback(origin.port));
        let mut direct = Self::beside("direct", dial, agent()?, None)?;
        direct.sink_dial = Dial::To(loopback(origin.sink_port));
        Ok(direct)
    }

    /// CONNECT without a look at what passes.
    pub(crate) fn tunnel() -> Outcome<Self> {
        let port = free_port()?;
        let mut command = pinned(Core::Proxy, std::env::current_exe()?);
        command.arg("tunnel").arg(port.to_string());
        let guard = Guard::spawn("tunnel", &mut command)?;
        wait_for_port(port)?;
        let dial = Dial::Connect(loopback(port));
        Self::beside("tunnel", dial, agent()?, Some((guard.id(), guard)))
    }

    /// The same tunnel, with its load behind a veth.
    pub(crate) fn tunnel_behind(path: &BarePath) -> Outcome<Self> {
        let guard = Guard::spawn("tunnel", &mut path.tunnel()?)?;
        let dial = Dial::Connect(BarePath::tunnelled());
        let process = Some((guard.id(), guard));
        Self::beside("tunnel veth", dial, path.agent()?, process)
    }

    /// HAProxy, which ends TLS with one certificate and begins it again; it has no CONNECT and
    /// mints nothing.
    pub(crate) fn haproxy(room: &Path, origin: &Origin) -> Outcome<Self> {
        let started = peers::haproxy(room, origin)?;
        let dial = Dial::To(loopback(started.port));
        let mut peer = Self::beside("HAProxy", dial, agent()?, Some(started.process))?;
        peer.sink_dial = Dial::To(loopback(started.sink_port));
        Ok(peer)
    }

    /// The same HAProxy, with its load behind a veth.
    pub(crate) fn haproxy_behind(path: &BarePath, room: &Path, origin: &Origin) -> Outcome<Self> {
        let process = Some(peers::haproxy_behind(path, room, origin)?);
        let dial = Dial::To(BarePath::answers());
        let mut peer = Self::beside("HAProxy veth", dial, path.agent()?, process)?;
        peer.sink_dial = Dial::To(BarePath::uploads());
        Ok(peer)
    }

    /// squid with ssl-bump.
    pub(crate) fn squid(room: &Path, origin: &Origin) -> Outcome<Self> {
        let started = peers::squid(room, origin)?;
        let dial = Dial::Connect(loopback(started.port));
        let mut peer = Self::beside("squid", dial, agent()?, Some(started.process))?;
        peer.h2 = false;
        Ok(peer)
    }

    /// mitmproxy.
    pub(crate) fn mitmproxy(room: &Path, origin: &Origin) -> Outcome<Self> {
        let started = peers::mitmproxy(room, origin)?;
        let dial = Dial::Connect(loopback(started.port));
        Self::beside("mitmproxy", dial, agent()?, Some(started.process))
    }

    /// gig: the agent runs in a real sandbox.
    pub(crate) fn gig(
        gig: &Path,
        (room, origin): (&Path, &Origin),
        (name, way): (&'static str, Gig),
    ) -> Outcome<Self> {
        let policy = room.join(format!("{name}.yaml"));
        let (port, sink) = (origin.port, origin.sink_port);
        let secrets = if way == Gig::Secrets {
            &bearer::SECRETS[..]
        } else {
            &[]
        };
        fs::write(&policy, gig_policy(port, sink, secrets))?;
        let mut command = pinned(Core::Proxy, gig);
        command
            .arg("run")
            .arg("--quiet")
            .arg("--policy")
            .arg(&policy);
        command.arg("--upstream-ca").arg(&origin.ca);
        command
            .arg("--audit")
            .arg(room.join(format!("{name}.jsonl")));
        for (host, port) in [(HOST.to_owned(), port), (HOST.to_owned(), sink)]
            .into_iter()
            .chain((0..FRESH_NAMES).map(|n| (fresh_name(n), port)))
        {
            command
                .arg("--resolve")
                .arg(format!("{host}:{port}:127.0.0.1"));
        }
        command.envs(secrets.iter().zip(bearer::VALUES));
        command
            .arg("--ro")
            .arg(format!("{}:/gig-bench", std::env::current_exe()?.display()));
        command
            .arg("--")
            .args(["taskset", "-c", &Core::Load.number().to_string()]);
        command.args(["/gig-bench", "agent"]);
        let mut agent = Agent::start(command)?;
        let dial = if way == Gig::Connect {
            Dial::Connect(agent.explicit_proxy()?)
        } else {
            Dial::Name
        };
        let proxy = Some(agent.guard.id());
        Ok(Self {
            name,
            sink_dial: dial.clone(),
            dial,
            h2: true,
            proxy,
            agent,
            _proxy_guard: None,
        })
    }

    fn beside(
        name: &'static str,
        dial: Dial,
        command: Command,
        proxy: Option<(u32, Guard)>,
    ) -> Outcome<Self> {
        let agent = Agent::start(command)?;
        let (proxy, guard) = proxy.unzip();
        let sink_dial = dial.clone();
        Ok(Self {
            name,
            dial,
            sink_dial,
            h2: true,
            proxy,
            agent,
            _proxy_guard: guard,
        })
    }

    /// Carries out one piece of load.
    pub(crate) fn measure(&mut self, origin: &Origin, load: Load) -> Outcome<Sample> {
        let up = matches!(load, Load::Up(_));
        let (dial, port) = if up {
            (self.sink_dial.clone(), origin.sink_port)
        } else {
            (self.dial.clone(), origin.port)
        };
        let order = Order {
            route: Route {
                host: HOST.to_owned(),
                port,
                dial,
            },
            load,
        };
        let what = || format!("{}: {:?}", self.name, order.load);
        doing(self.agent.begin(&order), what)?;
        let before = self.cpu()?;
        let figures = doing(self.agent.finish(), || {
            format!("{}: {:?}", self.name, order.load)
        })?;
        let cpu = self
            .cpu()?
            .zip(before)
            .map(|(after, before)| after - before);
        Ok(Sample { figures, cpu })
    }

    /// Memory that each of `count` held connections costs the proxy, in KiB.
    pub(crate) fn held(&mut self, origin: &Origin, count: u32) -> Outcome<Option<f64>> {
        let Some(proxy) = self.proxy else {
            return Ok(None);
        };
        let route = Route {
            host: HOST.to_owned(),
            port: origin.port,
            dial: self.dial.clone(),
        };
        let before = memory_kib(proxy)?;
        self.agent.begin(&Order {
            route,
            load: Load::Hold(count),
        })?;
        let after = memory_kib(proxy)?;
        self.agent.finish()?;
        Ok(Some((after - before) / f64::from(count)))
    }

    fn cpu(&self) -> Outcome<Option<f64>> {
        self.proxy.map(cpu_seconds).transpose()
    }
}

/// How gig is asked, and what it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gig {
    /// Every connection is redirected.
    Redirected,
    /// Every connection is redirected, and the sandbox holds sentinels of three secrets.
    Secrets,
    /// Every connection is asked for by CONNECT.
    Connect,
}

/// A load agent that is nowhere else.
fn agent() -> Outcome<Command> {
    let mut command = pinned(Core::Load, std::env::current_exe()?);
    command.arg("agent");
    Ok(command)
}

/// A running load agent.
struct Agent {
    guard: Guard,
    orders: ChildStdin,
    answers: Receiver<std::io::Result<String>>,
}

/// Longer than any piece of load takes where something still moves: a GiB at 5 MB/s.
const ANSWERS_WITHIN: Duration = Duration::from_secs(240);

impl Agent {
    fn start(mut command: Command) -> Outcome<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guard = Guard::spawn("load agent", &mut command)?;
        let orders = guard.child().stdin.take().ok_or("no pipe to the agent")?;
        let answers = guard
            .child()
            .stdout
            .take()
            .ok_or("no pipe from the agent")?;
        Ok(Self {
            guard,
            orders,
            answers: lines(answers),
        })
    }

    fn begin(&mut self, order: &Order) -> Outcome<()> {
        writeln!(self.orders, "{}", serde_json::to_string(order)?)?;
        match self.answer()? {
            Answer::Ready => Ok(()),
            Answer::Done(figures) => Err(format!("done before it was ready: {figures:?}").into()),
            Answer::Failed(why) => Err(why.into()),
            Answer::Proxy(_) => Err("an answer nobody asked for".into()),
        }
    }

    fn finish(&mut self) -> Outcome<Figures> {
        writeln!(self.orders, "{GO}")?;
        match self.answer()? {
            Answer::Done(figures) => Ok(figures),
            Answer::Failed(why) => Err(why.into()),
            Answer::Ready | Answer::Proxy(_) => Err("an answer nobody asked for".into()),
        }
    }

    /// The explicit proxy of the sandbox that the agent is in.
    fn explicit_proxy(&mut self) -> Outcome<SocketAddr> {
        writeln!(self.orders, "{PROXY}")?;
        match self.answer()? {
            Answer::Proxy(url) => {
                let bare = url.trim_start_matches("http://").trim_end_matches('/');
                doing(bare.parse(), || format!("read HTTPS_PROXY={url}"))
            }
            other => Err(format!("expected a proxy, got {other:?}").into()),
        }
    }

    fn answer(&mut self) -> Outcome<Answer> {
        match self.answers.recv_timeout(ANSWERS_WITHIN) {
            Ok(line) => Ok(serde_json::from_str(&line?)?),
            Err(RecvTimeoutError::Timeout) => {
                // A late answer would be taken for the next one's.
                self.guard.child().kill()?;
                let limit = ANSWERS_WITHIN.as_secs();
                Err(format!("it hangs: no answer in {limit} seconds, given up").into())
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.guard.child().wait()?;
                Err(format!("the load agent ended with {status}").into())
            }
        }
    }
}

/// Reads on a thread of its own, which ends with the agent, so that waiting can have a limit.
fn lines(answers: ChildStdout) -> Receiver<std::io::Result<String>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(answers).lines() {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

fn gig_policy(port: u16, sink: u16, secrets: &[&str]) -> String {
    let secrets = secrets.join(", ");
    format!(
        "version: 1
name: bench
egress:
  - {{host: {HOST}, ports: [{port}, {sink}], allow_private: [127.0.0.1/32], secrets: [{secrets}]}}
  - {{host: '*.names.bench.test', ports: [{port}], allow_private: [127.0.0.1/32]}}
limits: {{connections: 8192}}
"
    )
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Names that gig is told where to dial; the runs together ask for no more.
pub(crate) const FRESH_NAMES: u32 = 6_000;
