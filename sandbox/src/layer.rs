//! What each layer of confinement really does on this host.

/// A layer of confinement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// User, pid, ipc, uts, cgroup, mount and network namespaces.
    Namespaces,
    /// The constructed root.
    Mounts,
    /// User and group ids.
    User,
    /// Capabilities and no-new-privileges.
    Capabilities,
    /// Per-process limits.
    Rlimits,
    /// Memory, processor and process limits of the whole sandbox.
    Cgroup,
    /// Landlock.
    Landlock,
    /// The system call filter.
    Seccomp,
    /// The network.
    Network,
}

/// How much of a layer is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enforcement {
    /// All of it.
    Enforced,
    /// Some of it.
    Partial {
        /// What is not.
        missing: String,
    },
    /// Nothing of it.
    Off {
        /// Why.
        reason: String,
    },
}

/// One layer's state in one sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerReport {
    /// Which layer.
    pub layer: Layer,
    /// How much of it.
    pub enforcement: Enforcement,
}

impl Layer {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Mounts => "mounts",
            Self::User => "user",
            Self::Capabilities => "capabilities",
            Self::Rlimits => "rlimits",
            Self::Cgroup => "cgroup",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Network => "network",
        }
    }
}

impl LayerReport {
    pub(crate) fn enforced(layer: Layer) -> Self {
        Self {
            layer,
            enforcement: Enforcement::Enforced,
        }
    }

    pub(crate) fn partial(layer: Layer, missing: impl Into<String>) -> Self {
        Self {
            layer,
            enforcement: Enforcement::Partial {
                missing: missing.into(),
            },
        }
    }

    pub(crate) fn off(layer: Layer, reason: impl Into<String>) -> Self {
        Self {
            layer,
            enforcement: Enforcement::Off {
                reason: reason.into(),
            },
        }
    }
}
