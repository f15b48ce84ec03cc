//! Where the appliance is: on this machine by its socket, which needs no token, or elsewhere by its
//! address and a token.

use anyhow::{Context, bail};
use gig_policy::Port;
use gig_proxy::{authority::Authority, tls::roots::Roots};
use hyper::header::HeaderValue;

use crate::{
    args::serve::McpArgs,
    fetch::{NetworkFetch, Stream},
    local_api,
    run::settings::own_proxy,
};

/// An appliance, and how to be let in.
pub(super) struct Place {
    authority: String,
    token: Option<HeaderValue>,
    elsewhere: Option<Elsewhere>,
}

struct Elsewhere {
    tls: bool,
    url: String,
    roots: Roots,
}

impl Place {
    /// As the command line and the environment say.
    ///
    /// # Errors
    /// When there is no token for an appliance elsewhere, or it cannot be one.
    pub(super) fn of(args: &McpArgs) -> anyhow::Result<Self> {
        let Some(url) = &args.url else {
            return Ok(Self {
                authority: "gig".to_owned(),
                token: None,
                elsewhere: None,
            });
        };
        let token = gig_vault::environment::var_os("GIG_TOKEN");
        let token = token.and_then(|token| token.into_string().ok()).context(
            "GIG_TOKEN is not set: an appliance elsewhere wants a token (`gig token add NAME --role editor`)",
        )?;
        let mut token = HeaderValue::try_from(format!("Bearer {}", token.trim()))
            .ok()
            .context("GIG_TOKEN holds no token")?;
        token.set_sensitive(true);
        let mut roots = Roots::system();
        if let Some(file) = &args.ca {
            let unusable = || format!("--ca {}: cannot use these roots", file.display());
            let pem = std::fs::read(file).with_context(unusable)?;
            roots = roots.with_pem(&pem).with_context(unusable)?;
        }
        let (scheme, authority) = url.split_once("://").unwrap_or(("", url));
        Ok(Self {
            authority: authority.to_owned(),
            token: Some(token),
            elsewhere: Some(Elsewhere {
                tls: scheme == "https",
                url: url.clone(),
                roots,
            }),
        })
    }

    /// Goes there.
    ///
    /// # Errors
    /// When nobody answers.
    pub(super) async fn connect(self) -> anyhow::Result<(Box<dyn Stream>, Self)> {
        let Some(elsewhere) = &self.elsewhere else {
            return Ok((Box::new(local_api::connect().await?), self));
        };
        let url = &elsewhere.url;
        let Ok(authority) = Authority::parse(&self.authority) else {
            bail!("{url} names no host");
        };
        let usual = if elsewhere.tls {
            Port::HTTPS
        } else {
            Port::HTTP
        };
        let proxy = own_proxy()?;
        let network = NetworkFetch::new(elsewhere.roots.clone(), proxy);
        let port = authority.port.unwrap_or(usual);
        let reached = network.stream(&authority.host, port, elsewhere.tls).await;
        match reached {
            Ok(stream) => Ok((stream, self)),
            // Whoever answers with a company's own certificate is not nobody.
            Err(why) if why.to_string().contains("certificate") => bail!(
                "what answers at {url} is not trusted: {why}; name the authority of its certificate with --ca FILE"
            ),
            Err(why) if elsewhere.tls && why.to_string().contains("InvalidContentType") => bail!(
                "what answers at {url} speaks no TLS: if it is gig itself, write http://, which is safe on this machine's \
                 own loopback alone"
            ),
            Err(why) => bail!("no appliance answers at {url}: {why}"),
        }
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn token(&self) -> Option<&HeaderValue> {
        self.token.as_ref()
    }
}
