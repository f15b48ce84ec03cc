//! Where people reach the console, as typed: scheme and host, in clear text on this machine alone.
//!
//! Promises the spelling that browsers have for it in `Origin`.

pub(super) fn read(text: &str) -> Result<String, String> {
    // As browsers name it in `Origin`.
    let url = text.trim_end_matches('/').to_ascii_lowercase();
    let usual = match url.starts_with("https:") {
        true => ":443",
        false => ":80",
    };
    let url = url.strip_suffix(usual).unwrap_or(&url);
    let host = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let plain = |host: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        !host.is_empty() && host.chars().all(fits)
    };
    let here = |host: &str| {
        let host = host.parse::<std::net::SocketAddr>().map_or_else(
            |_| host.split(':').next().unwrap_or_default().to_owned(),
            |at| at.ip().to_string(),
        );
        let address = host.parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    };
    match host {
        Some(host) if url.starts_with("http:") && !here(host) => Err(
            "passwords do not cross a network in clear text: write https:// and let something that \
             speaks TLS stand in front"
                .to_owned(),
        ),
        Some(host) if plain(host) => Ok(url.to_owned()),
        _ => Err("write scheme and host only: https://gig.example.com".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_url_in_clear_text_is_refused_unless_it_is_of_this_machine() {
        for url in [
            "http://gig.example.com",
            "http://gig.example.com:8080/",
            "http://10.0.0.1:8080",
            "http://[2001:db8::1]:8080",
            "http://localhost.example.com",
            "http://127.0.0.1.example.com",
        ] {
            let refused = read(url).unwrap_err();
            assert!(refused.contains("clear text"), "{url}: {refused}");
        }
        for (url, taken) in [
            ("https://gig.example.com/", "https://gig.example.com"),
            ("http://localhost:8080", "http://localhost:8080"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("http://[::1]:8080", "http://[::1]:8080"),
        ] {
            assert_eq!(read(url).as_deref(), Ok(taken));
        }
        for url in [
            "gig.example.com",
            "ftp://gig.example.com",
            "https://",
            "https://a/b",
            "https://a@b",
        ] {
            assert!(read(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_public_url_is_what_browsers_call_it() {
        let url = |text: &str| read(text).unwrap();
        assert_eq!(
            url("https://GIG.Example.com:443/"),
            "https://gig.example.com"
        );
        assert_eq!(url("HTTPS://gig.example:8443"), "https://gig.example:8443");
        assert_eq!(url("http://LOCALHOST:80"), "http://localhost");
        assert_eq!(url("https://[2001:DB8::1]:443"), "https://[2001:db8::1]");
        assert!(read("http://gig.example.com").is_err());
        assert!(read("https://gig.example.com/console").is_err());
    }
}
