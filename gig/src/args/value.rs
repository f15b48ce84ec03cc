//! Values of options, read with messages that say what was given and what is taken.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use gig_audit::search::moment;
use gig_policy::{
    Binding, Format, ParseAllowError, ParseSecretNameError, PolicyBuilder, SandboxId, SecretName,
    SecretPlace,
};
use gig_sandbox::CpuShare;
use jiff::Timestamp;

/// `PATH[:DEST]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BindArg {
    pub(crate) source: PathBuf,
    /// As typed; `None` is the same path as outside.
    pub(crate) dest: Option<PathBuf>,
}

/// `NAME[=VALUE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EnvArg {
    pub(crate) name: String,
    /// `None`: gig's own variable of that name.
    pub(crate) value: Option<String>,
}

/// `NAME[:PLACE[,PLACE…]]@HOST[:PORT][,HOST[:PORT]…]`, or `NAME` alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretArg {
    pub(crate) name: SecretName,
    /// Empty: the policy document alone says where it may go.
    pub(crate) bindings: Vec<Binding>,
}

/// Whose document is imported.
pub(crate) fn format() -> impl TypedValueParser<Value = Format> {
    let known = Format::ALL.map(|one| PossibleValue::new(one.as_str()).help(one.words()));
    PossibleValuesParser::new(known).try_map(|text| text.parse::<Format>())
}

pub(crate) fn secret(text: &str) -> Result<SecretArg, String> {
    let (name, hosts) = match text.rsplit_once('@') {
        Some((name, hosts)) => (name, Some(hosts)),
        None => (text, None),
    };
    if name.contains('=') {
        return Err(
            "a value is never taken from the command line, where every process can read it: put it \
             into gig's own environment, and write NAME@HOST here"
                .to_owned(),
        );
    }
    // A name holds no colon.
    let (name, places) = match name.split_once(':') {
        Some((name, places)) => (name, Some(self::places(places)?)),
        None => (name, None),
    };
    if places.is_some() && hosts.is_none() {
        return Err(format!(
            "{name}: places go with a host, as in NAME:header:Authorization@HOST; for the hosts of a policy write \
             `in` there"
        ));
    }
    let name: SecretName = name
        .parse()
        .map_err(|error: ParseSecretNameError| error.to_string())?;
    let bound = |host: &str| {
        let binding = Binding::parse(name.clone(), host).map_err(|error| error.to_string())?;
        Ok(match &places {
            Some(places) => binding.within(Arc::clone(places)),
            None => binding,
        })
    };
    let hosts = hosts.into_iter().flat_map(|hosts| hosts.split(','));
    let bindings = hosts.map(bound).collect::<Result<_, String>>()?;
    Ok(SecretArg { name, bindings })
}

/// Where in a request a value may stand.
fn places(text: &str) -> Result<Arc<[SecretPlace]>, String> {
    let places = text.split(',').map(str::parse::<SecretPlace>);
    let places = places.map(|place| place.map_err(|error| error.to_string()));
    places.collect()
}

/// An address or range that is not public and may be opened.
pub(crate) fn private_range(text: &str) -> Result<String, String> {
    let tried = PolicyBuilder::new("outbound").allow_private(text);
    match tried {
        Ok(_) => Ok(text.to_owned()),
        Err(ParseAllowError::BadPrivate(_, why)) => Err(why),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) fn sandbox(text: &str) -> Result<SandboxId, String> {
    uuid::Uuid::parse_str(text)
        .map(SandboxId::new)
        .map_err(|_| {
            "a sandbox is named as in its records: 01a1fdb3-f509-7230-a13e-1c78222dd1a3".to_owned()
        })
}

/// `NAME=https://HOST[:PORT]/PATH@HOST[:PORT][,HOST[:PORT]…]`; the hosts may stand in a policy instead.
pub(crate) fn capture(text: &str) -> Result<SecretArg, String> {
    let shape = "write NAME=https://HOST/PATH@HOST: what the tokens are called, where they are given, and \
                 where they may go";
    let (name, rest) = text.split_once('=').ok_or(shape)?;
    let name: SecretName = name
        .parse()
        .map_err(|error: ParseSecretNameError| error.to_string())?;
    // A path may hold an @; a host holds no slash.
    let (url, places) = match rest.rsplit_once('@') {
        Some((url, places)) if !places.contains('/') => (url, Some(places)),
        _ => (rest, None),
    };
    let endpoint = Binding::capture(&name, url).map_err(|error| error.to_string())?;
    let places = places.into_iter().flat_map(|places| places.split(','));
    let bound =
        places.map(|place| Binding::parse(name.clone(), place).map_err(|error| error.to_string()));
    let bindings = endpoint
        .into_iter()
        .map(Ok)
        .chain(bound)
        .collect::<Result<_, String>>()?;
    Ok(SecretArg { name, bindings })
}

/// Whom a sandbox runs for.
pub(crate) fn profile(text: &str) -> Result<String, String> {
    let name = text.parse::<gig_web::store::Name>();
    name.map(|name| name.as_str().to_owned())
        .map_err(|error| error.to_string())
}

pub(crate) fn bind(text: &str) -> Result<BindArg, String> {
    let (source, dest) = match text.rsplit_once(':') {
        Some((source, dest)) => (source, Some(dest)),
        None => (text, None),
    };
    if source.is_empty() {
        return Err("the path is empty; PATH or PATH:DEST is taken".to_owned());
    }
    if dest.is_some_and(|dest| !dest.starts_with('/')) {
        return Err(
            "what stands behind the last colon is where it is shown, and must be absolute: PATH:/where/inside; of a \
             path that holds a colon, say that, too"
                .to_owned(),
        );
    }
    Ok(BindArg {
        source: source.into(),
        dest: dest.map(PathBuf::from),
    })
}

pub(crate) fn env(text: &str) -> Result<EnvArg, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let first_ok = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !first_ok || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err("a variable's name is letters, digits and underscores".to_owned());
    }
    Ok(EnvArg {
        name: name.to_owned(),
        value,
    })
}

/// Octets: `64KB`, `512MB`, `2GB` count in thousands, `64KiB`, `512MiB`, `2GiB` in 1,024s.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" if number.len() < BARE => {
            return Err(format!(
                "{number} octets is next to nothing: write its unit, as in {number}MB"
            ));
        }
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "kb" => 1_000,
        "m" | "mib" => 1 << 20,
        "mb" => 1_000_000,
        "g" | "gib" => 1 << 30,
        "gb" => 1_000_000_000,
        _ => return Err("a size is a number and KB, MB, GB, KiB, MiB or GiB: 512MB".to_owned()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "a size starts with a number: 512MB".to_owned())?;
    match number.checked_mul(factor) {
        Some(0) => Err("a size of nothing would let nothing run".to_owned()),
        Some(octets) => Ok(octets),
        None => Err("that is more than can be counted".to_owned()),
    }
}

/// `90s`, `5m`, `1h`, `250ms`; a bare number counts seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number
        .parse()
        .map_err(|_| "a duration starts with a number: 90s".to_owned())?;
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("a duration is a number and ms, s, m or h: 90s".to_owned()),
    };
    match number.checked_mul(milliseconds) {
        Some(0) => Err("a duration of nothing would let nothing run".to_owned()),
        Some(total) => Ok(Duration::from_millis(total)),
        None => Err("that is longer than can be counted".to_owned()),
    }
}

/// Where a search begins, as records spell it: a day, a time, or a span before now.
pub(crate) fn since(text: &str) -> Result<String, String> {
    moment::since(text, Timestamp::now()).map_err(|error| error.to_string())
}

/// Where it ends: of a day its end.
pub(crate) fn until(text: &str) -> Result<String, String> {
    moment::until(text, Timestamp::now()).map_err(|error| error.to_string())
}

/// A time that may be none: `0s`, `10m`, `24h`, `30d`, `4w`; a bare number counts seconds.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number
        .parse()
        .map_err(|_| "a duration starts with a number: 30d".to_owned())?;
    let seconds: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err("a duration is a number and s, m, h, d or w: 30d".to_owned()),
    };
    number
        .checked_mul(seconds)
        .map(Duration::from_secs)
        .ok_or_else(|| "that is longer than can be counted".to_owned())
}

/// How many, from one on.
pub(crate) fn count(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "a number is wanted, from 1 on: 100".to_owned())
}

/// Where to listen.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "an IP address and a port are wanted, as in 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080: no name is looked up here"
            .to_owned()
    })
}

/// Processors, to a thousandth: `2`, `0.5`.
pub(crate) fn cpus(text: &str) -> Result<CpuShare, String> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let thousandths = (digits(whole) && digits(part) && part.len() <= 3)
        .then(|| format!("{whole}{part:0<3}"))
        .and_then(|text| text.parse::<u32>().ok());
    thousandths
        .and_then(CpuShare::from_millis)
        .ok_or_else(|| "a number of processors is taken, to a thousandth: 2 or 0.5".to_owned())
}

/// Octets with fewer digits than this have their unit.
const BARE: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_is_none_is_told_what_one_has() {
        assert_eq!(profile("zoe@example.com").as_deref(), Ok("zoe@example.com"));
        for text in ["z\no", "", "-z"] {
            let words = profile(text).unwrap_err();
            assert!(words.contains("1 to 64 letters"), "{text:?}: {words}");
        }
    }

    #[test]
    fn places_stand_between_name_and_host() {
        let arg = secret("T:header:Authorization,basic,query:a@b@one.test,two.test:8443").unwrap();
        assert_eq!(arg.name.as_str(), "T");
        let bound: Vec<_> = arg
            .bindings
            .iter()
            .map(|b| (b.host(), b.port().get()))
            .collect();
        assert_eq!(
            bound,
            [("one.test".to_owned(), 443), ("two.test".to_owned(), 8443)]
        );
        let places = ["header:authorization", "basic", "query:a@b"];
        for binding in &arg.bindings {
            let told = binding.places().unwrap().iter().map(ToString::to_string);
            assert_eq!(told.collect::<Vec<_>>(), places);
        }
        assert!(secret("T@one.test").unwrap().bindings[0].places().is_none());
        assert_eq!(secret("T:header:*@a.test").unwrap().bindings.len(), 1);
        for (wrong, why) in [
            ("T:@a.test", "not a place"),
            ("T:anywhere@a.test", "not a place"),
            ("T:header:Authorization", "go with a host"),
            ("T=v:body@a.test", "never taken from the command line"),
        ] {
            let error = secret(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn sizes_and_durations_have_units() {
        assert_eq!(size("512MB"), Ok(512_000_000));
        assert_eq!(size("1GiB"), Ok(1 << 30));
        assert!(size("512").is_err() && span("30").is_err());
        assert_eq!(size("67108864"), Ok(64 << 20));
        assert!(size("0").is_err() && size("12parsecs").is_err());
        assert!(size("99999999999GB").is_err());
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert!(duration("s").is_err() && duration("0").is_err());
        assert_eq!(span("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(span("0s"), Ok(Duration::ZERO));
        assert_eq!(
            since("2026-11-21").as_deref(),
            Ok("2026-11-21T00:00:00.000000Z")
        );
        let end = until("2026-11-21");
        assert_eq!(end.as_deref(), Ok("2026-11-22T00:00:00.000000Z"));
        let spelt = since("2026-11-21T10:30:00.5+01:00");
        assert_eq!(spelt.as_deref(), Ok("2026-11-21T09:30:00.500000Z"));
        assert!(since("7d").unwrap() < since("1h").unwrap());
        assert!(since("yesterday").is_err() && since("").is_err());
        assert!(span("d").is_err() && span("1y").is_err() && span("-1s").is_err());
    }

    #[test]
    fn processors_count_in_thousandths() {
        assert_eq!(cpus("0.5").map(CpuShare::as_millis), Ok(500));
        assert_eq!(cpus("2").map(CpuShare::as_millis), Ok(2000));
        assert!(
            ["0", "0.0001", "-1", "", ".", "1e9", "99999999"]
                .iter()
                .all(|t| cpus(t).is_err())
        );
    }

    #[test]
    fn a_bind_goes_to_an_absolute_place() {
        assert_eq!(
            bind("a:/b"),
            Ok(BindArg {
                source: "a".into(),
                dest: Some("/b".into())
            })
        );
        assert!(bind("a:b").is_err() && bind(":/b").is_err() && bind("").is_err());
    }

    #[test]
    fn a_secret_is_named_and_bound_and_never_given() {
        let arg = secret("T@a.example,*.b.example:8443").unwrap();
        assert_eq!(arg.name.as_str(), "T");
        assert_eq!(arg.bindings.len(), 2);
        assert!(secret("T").unwrap().bindings.is_empty());
        for wrong in [
            "",
            "@a.example",
            "T@",
            "T=value@a.example",
            "T@https://a.example",
            "T-x@a",
        ] {
            assert!(secret(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_capture_names_its_endpoint_and_its_hosts() {
        let arg = capture("L=https://auth.example/o/@me/token@a.example,b.example:8443").unwrap();
        assert_eq!((arg.name.as_str(), arg.bindings.len()), ("L", 5));
        assert_eq!(
            capture("L=https://auth.example/token")
                .unwrap()
                .bindings
                .len(),
            3
        );
        for wrong in [
            "",
            "L",
            "L=",
            "L=auth.example/token@a.example",
            "L=http://auth.example/token@a.example",
            "L=https://auth.example@a.example",
            "L=https://auth.example/token@",
            "L=https://auth.example/token@a.example,",
            "L x=https://auth.example/token@a.example",
        ] {
            assert!(capture(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_variable_has_a_name() {
        assert_eq!(
            env("A=b=c"),
            Ok(EnvArg {
                name: "A".into(),
                value: Some("b=c".into())
            })
        );
        assert!(env("=x").is_err() && env("1A").is_err() && env("A-B=1").is_err());
    }
}
