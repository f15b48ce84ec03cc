//! Nothing: a package needs a target that is always there. The work is in `targets/`.
