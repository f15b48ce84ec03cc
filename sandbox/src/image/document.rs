//! What a registry's documents say: index, manifest, configuration.
//!
//! The specification lets each of them hold more than is read here, so unknown fields pass; what is
//! read is checked.

use serde::Deserialize;

use super::digest::{Digest, ParseDigestError};
use super::limits::Limits;

/// Content types of a list of manifests, one for each platform.
pub const INDEX_TYPES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
/// Content types of one image's manifest.
pub const MANIFEST_TYPES: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
/// What a layer may be; how it is compressed shows in its bytes.
const LAYER_TYPES: [&str; 5] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
];

/// Why a document is not one.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is not the JSON that it is to be.
    #[error("the {what} is not what the image specification has")]
    Json {
        /// Which document.
        what: &'static str,
        /// Where it goes wrong.
        #[source]
        source: serde_json::Error,
    },
    /// A digest in it is none.
    #[error("the image's manifest names something by no digest")]
    Digest(#[source] ParseDigestError),
    /// It is of another kind.
    #[error("{media_type:?} is no kind of image that gig knows")]
    Kind {
        /// What it says it is, cut.
        media_type: String,
    },
    /// None for this machine.
    #[error("the image has nothing for {platform}; it has {there}")]
    Platform {
        /// This machine's.
        platform: String,
        /// What there is.
        there: String,
    },
    /// What no program can be started with.
    #[error("the image's configuration holds {text:?}, {why}")]
    Word {
        /// Which text, cut.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Too much of something.
    #[error("the image has {found} {what}, and at most {most} are taken")]
    Many {
        /// Of what.
        what: &'static str,
        /// How many.
        found: u64,
        /// The bound.
        most: u64,
    },
}

/// Bytes, by digest and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// What they are.
    pub digest: Digest,
    /// How many there are.
    pub size: u64,
}

/// One image: a configuration and layers, the lowest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The configuration.
    pub config: Descriptor,
    /// The layers.
    pub layers: Vec<Descriptor>,
}

/// What a digest leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// This machine's manifest in a list of several.
    Index(Descriptor),
    /// One image.
    Manifest(Manifest),
}

/// How an image is to be run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The words that the program begins with.
    pub entrypoint: Vec<String>,
    /// The words after those.
    pub command: Vec<String>,
    /// `NAME=VALUE`.
    pub env: Vec<String>,
    /// Where it starts.
    pub workdir: Option<String>,
    /// As whom it would run elsewhere.
    pub user: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    variant: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Either {
    media_type: Option<String>,
    manifests: Option<Vec<Named>>,
    config: Option<Named>,
    layers: Option<Vec<Named>>,
}

#[derive(Deserialize)]
struct Whole {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    config: Option<Run>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Run {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    user: Option<String>,
}

/// This machine's architecture, as images call it.
const ARCHITECTURE: &str = match std::env::consts::ARCH.as_bytes() {
    b"x86_64" => "amd64",
    b"aarch64" => "arm64",
    _ => std::env::consts::ARCH,
};

impl Document {
    /// Reads an index or a manifest; `served` is what the registry said it is.
    ///
    /// # Errors
    /// If it is neither, or has nothing for this machine.
    pub fn parse(bytes: &[u8], served: &str, limits: &Limits) -> Result<Self, DocumentError> {
        let json = |source| DocumentError::Json {
            what: "manifest",
            source,
        };
        let either: Either = serde_json::from_slice(bytes).map_err(json)?;
        // What the bytes say counts: they have the digest, the registry's word has none.
        let kind = either.media_type.as_deref().unwrap_or(served);
        let is = |kinds: &[&str]| kinds.contains(&kind);
        match (either.manifests, either.config, either.layers) {
            (Some(manifests), None, None) if is(&INDEX_TYPES) => ours(&manifests).map(Self::Index),
            (None, Some(config), Some(layers)) if is(&MANIFEST_TYPES) => {
                manifest(&config, &layers, limits).map(Self::Manifest)
            }
            _ => Err(unknown(kind)),
        }
    }
}

fn unknown(kind: &str) -> DocumentError {
    DocumentError::Kind {
        media_type: kind.chars().take(100).collect(),
    }
}

fn described(named: &Named) -> Result<Descriptor, DocumentError> {
    Ok(Descriptor {
        digest: named.digest.parse().map_err(DocumentError::Digest)?,
        size: named.size,
    })
}

/// The first that this machine can run.
fn ours(manifests: &[Named]) -> Result<Descriptor, DocumentError> {
    let fits = |platform: &Platform| {
        let variant = ["", "v8"].contains(&platform.variant.as_str());
        platform.os == "linux" && platform.architecture == ARCHITECTURE && variant
    };
    let found = manifests.iter().find(|named| {
        MANIFEST_TYPES.contains(&named.media_type.as_str())
            && named.platform.as_ref().is_some_and(fits)
    });
    match found {
        Some(named) => described(named),
        None => Err(DocumentError::Platform {
            platform: format!("linux/{ARCHITECTURE}"),
            there: there(manifests),
        }),
    }
}

/// A few of the platforms, for a person.
fn there(manifests: &[Named]) -> String {
    let platforms = manifests.iter().filter_map(|named| named.platform.as_ref());
    let mut words: Vec<String> = platforms
        .map(|platform| format!("{:?}", format!("{}/{}", platform.os, platform.architecture)))
        .take(8)
        .collect();
    words.dedup();
    match words.is_empty() {
        true => "no platforms".to_owned(),
        false => words.join(", ").chars().take(300).collect(),
    }
}

fn manifest(config: &Named, layers: &[Named], limits: &Limits) -> Result<Manifest, DocumentError> {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let many = |what, found, most| DocumentError::Many { what, found, most };
    if layers.len() > limits.layers {
        return Err(many("layers", count(layers.len()), count(limits.layers)));
    }
    if let Some(layer) = layers
        .iter()
        .find(|layer| !LAYER_TYPES.contains(&layer.media_type.as_str()))
    {
        return Err(unknown(&layer.media_type));
    }
    if config.size > limits.document {
        return Err(many(
            "octets of configuration",
            config.size,
            limits.document,
        ));
    }
    let packed = layers
        .iter()
        .fold(0_u64, |sum, layer| sum.saturating_add(layer.size));
    if packed > limits.packed {
        return Err(many("octets of layers", packed, limits.packed));
    }
    Ok(Manifest {
        config: described(config)?,
        layers: layers.iter().map(described).collect::<Result<_, _>>()?,
    })
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// If it is none, or another machine's.
    pub fn parse(bytes: &[u8]) -> Result<Self, DocumentError> {
        let whole: Whole = serde_json::from_slice(bytes).map_err(|source| DocumentError::Json {
            what: "image's configuration",
            source,
        })?;
        if whole.os != "linux" || whole.architecture != ARCHITECTURE {
            let named = format!("{}/{}", whole.os, whole.architecture);
            return Err(DocumentError::Platform {
                platform: format!("linux/{ARCHITECTURE}"),
                there: format!("{named:?}").chars().take(300).collect(),
            });
        }
        let run = whole.config.unwrap_or_default();
        run.check()?;
        let said = |text: Option<String>| text.filter(|text| !text.is_empty());
        Ok(Self {
            entrypoint: run.entrypoint.unwrap_or_default(),
            command: run.cmd.unwrap_or_default(),
            env: run.env.unwrap_or_default(),
            workdir: said(run.working_dir),
            user: said(run.user),
        })
    }
}

impl Run {
    /// Whether each text is one that a program can be given: here it is the image that is at fault.
    fn check(&self) -> Result<(), DocumentError> {
        let lists = [&self.entrypoint, &self.cmd, &self.env].into_iter();
        let texts = lists.flatten().flatten();
        let texts = texts.chain(&self.working_dir).chain(&self.user);
        for text in texts {
            if text.contains('\0') {
                return Err(useless(text, "with a NUL character"));
            }
        }
        for text in self.env.iter().flatten() {
            if text.starts_with('=') {
                return Err(useless(text, "which is no variable"));
            }
        }
        Ok(())
    }
}

fn useless(text: &str, why: &'static str) -> DocumentError {
    DocumentError::Word {
        text: text.chars().take(100).collect(),
        why,
    }
}

#[cfg(test)]
mod tests;
