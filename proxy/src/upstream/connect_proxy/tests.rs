//! Variables read, hosts let past, tunnels asked for.

use tokio::net::TcpListener;

use super::*;

fn from(variables: &[(&str, &str)]) -> Result<Option<UpstreamProxy>, ParseProxyError> {
    UpstreamProxy::from_env(|name| {
        variables
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| (*value).to_owned())
    })
}

fn proxy(url: &str, no_proxy: &str) -> UpstreamProxy {
    from(&[("HTTPS_PROXY", url), ("NO_PROXY", no_proxy)])
        .unwrap()
        .unwrap()
}

#[test]
fn the_variables_are_read_in_order() {
    assert!(from(&[]).unwrap().is_none());
    assert!(from(&[("HTTPS_PROXY", "")]).unwrap().is_none());
    let both = [
        ("ALL_PROXY", "http://b.example:1"),
        ("https_proxy", "a.example:3128"),
    ];
    let found = from(&both).unwrap().unwrap();
    assert_eq!(
        (found.host().to_string(), found.port().get()),
        ("a.example".to_owned(), 3128)
    );
    assert_eq!(
        proxy("http://[2001:db8::1]:8080/", "").host().to_string(),
        "[2001:db8::1]"
    );
}

#[test]
fn what_cannot_be_used_is_said_without_its_credentials() {
    for url in [
        "socks5://a.example:1080",
        "https://a.example",
        "http://",
        "http://a.example:0",
    ] {
        let error = from(&[("HTTPS_PROXY", url)]).unwrap_err();
        assert_eq!(error.variable, "HTTPS_PROXY");
        let scheme = !url.starts_with("http://");
        assert_eq!(error.why.contains("env -u"), scheme, "{error}");
    }
    let error = from(&[("HTTPS_PROXY", "ftp://user:hunter2@a.example")]).unwrap_err();
    assert!(!error.to_string().contains("hunter2"));
    assert!(!format!("{:?}", proxy("http://user:hunter2@a.example:1", "")).contains("hunter2"));
}

#[test]
fn a_proxy_for_clear_text_alone_is_told_of() {
    let overlooked = |set: &[&str]| {
        let value = |name: &str| set.contains(&name).then(|| "http://a.example:1".to_owned());
        UpstreamProxy::overlooked(value)
    };
    assert_eq!(overlooked(&["HTTP_PROXY"]), Some("HTTP_PROXY"));
    assert_eq!(overlooked(&["http_proxy"]), Some("http_proxy"));
    assert_eq!(overlooked(&["http_proxy", "ALL_PROXY"]), None);
    assert_eq!(overlooked(&[]), None);
}

#[test]
fn credentials_are_decoded_and_encoded() {
    let with = proxy("http://us%40er:p%3Aw@a.example:1", "");
    assert_eq!(
        with.credentials.unwrap(),
        BASE64_STANDARD.encode("us@er:p:w")
    );
    assert!(from(&[("HTTPS_PROXY", "http://a%3Ab:c@a.example:1")]).is_err());
}

#[test]
fn no_proxy_lets_names_suffixes_networks_and_ports_past() {
    let list = "corp.example, .only-below.example intranet:8080,10.0.0.0/8,192.0.2.7,[2001:db8::1],*.star.example";
    let proxy = proxy("http://p.example:1", list);
    let past =
        |host: &str, port| proxy.bypasses(&Host::parse(host).unwrap(), Port::new(port).unwrap());
    assert!(past("corp.example", 443) && past("a.b.corp.example", 443));
    assert!(!past("notcorp.example", 443));
    assert!(past("x.only-below.example", 443) && !past("only-below.example", 443));
    assert!(past("x.star.example", 443));
    assert!(past("intranet", 8080) && !past("intranet", 443));
    assert!(past("10.9.8.7", 1) && past("192.0.2.7", 1) && !past("192.0.2.8", 1));
    assert!(past("2001:db8::1", 443));
    assert!(proxy.bypasses_address(IpAddr::from([127, 0, 0, 1]), Port::HTTPS));
    assert!(!proxy.bypasses_address(IpAddr::from([93, 184, 215, 14]), Port::HTTPS));
}

/// A proxy that answers in pieces and sends the origin's first bytes with its last.
async fn tunnelled(answer: &'static [&'static str]) -> (Result<(), TunnelError>, String, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test on loopback")]
    let std = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    std.set_nonblocking(true).unwrap();
    let mut stream = TcpStream::from_std(std).unwrap();
    let serve = async {
        let (mut peer, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            peer.read_buf(&mut request).await.unwrap();
        }
        for piece in answer {
            peer.set_nodelay(true).unwrap();
            peer.write_all(piece.as_bytes()).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        String::from_utf8(request).unwrap()
    };
    let upstream = proxy("http://user:pw@p.example:1", "");
    let host = Host::parse("93.184.215.14").unwrap();
    let asking = upstream.tunnel(&mut stream, &host, Port::HTTPS);
    let (result, request) = tokio::join!(asking, serve);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    (result, request, rest)
}

#[tokio::test]
async fn not_an_octet_of_the_origin_is_lost() {
    let answer = &[
        "HTTP/1.1 200 Con",
        "nection established\r\nX: y\r",
        "\n\r\n220 mail",
    ];
    let (result, request, rest) = tunnelled(answer).await;
    result.unwrap();
    assert_eq!(rest, b"220 mail");
    assert!(
        request.starts_with("CONNECT 93.184.215.14:443 HTTP/1.1\r\nHost: 93.184.215.14:443\r\n")
    );
    assert!(request.contains("\r\nProxy-Authorization: Basic dXNlcjpwdw==\r\n"));
}

#[tokio::test]
async fn refusals_and_nonsense_are_errors() {
    let (result, ..) = tunnelled(&["HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n"]).await;
    assert!(matches!(result, Err(TunnelError::Refused(407))));
    let (result, ..) = tunnelled(&["SSH-2.0-x\r\n\r\n"]).await;
    assert!(matches!(result, Err(TunnelError::Malformed)));
    let (result, ..) = tunnelled(&["HTTP/1.1 20"]).await;
    assert!(matches!(result, Err(TunnelError::Malformed)));
}
