//! Builds the bootstrap, a static program of its own, for embedding.
//!
//! A nested cargo with a target directory and a lock file of its own; it needs
//! one crate, in the version that the workspace locks too, so a host on which
//! `cargo fetch` has run builds it without a network.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    if let Err(reason) = build() {
        println!("cargo::error=the bootstrap could not be built: {reason}");
    }
}

fn build() -> Result<(), String> {
    // The first that a build for another system comes to.
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return Err("gig needs Linux: run it in a Linux machine, virtual or not".to_owned());
    }
    let package = path("CARGO_MANIFEST_DIR")?.join("bootstrap");
    let out = path("OUT_DIR")?;
    let target = env::var("TARGET").map_err(|_| "no TARGET")?;
    for watched in ["Cargo.toml", "Cargo.lock", "src"] {
        println!(
            "cargo::rerun-if-changed={}",
            package.join(watched).display()
        );
    }
    println!("cargo::rerun-if-changed=build.rs");
    let built = out.join("bootstrap");
    #[expect(
        clippy::disallowed_methods,
        reason = "a build script, on the builder's machine"
    )]
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args([
            "build",
            "--quiet",
            "--release",
            "--locked",
            "--target",
            &target,
        ])
        .arg("--manifest-path")
        .arg(package.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&built)
        // Wrappers and flags of the outer build (clippy's, coverage's) are not
        // for a static program; its own flags make it one.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            "-Ctarget-feature=+crt-static\x1f--cfg=gig_bootstrap\x1f--check-cfg=cfg(gig_bootstrap)",
        );
    let status = cargo.status().map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err(format!("cargo ended with {status}"));
    }
    let program = built.join(target).join("release").join("gig-bootstrap");
    expect_static(&program)?;
    println!("cargo::rustc-env=GIG_BOOTSTRAP={}", program.display());
    Ok(())
}

/// A program that needs a loader would look for it inside the sandbox.
fn expect_static(program: &Path) -> Result<(), String> {
    const INTERPRETER: u32 = 3;
    let bytes = std::fs::read(program).map_err(|error| error.to_string())?;
    let half = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let headers = || {
        let first =
            usize::try_from(u64::from_le_bytes(bytes.get(32..40)?.try_into().ok()?)).ok()?;
        let (size, count) = (usize::from(half(54)?), usize::from(half(56)?));
        (0..count)
            .map(|index| {
                let at = first + index * size;
                Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
            })
            .collect::<Option<Vec<u32>>>()
    };
    let kinds = headers().ok_or("it is no 64-bit program")?;
    if kinds.contains(&INTERPRETER) {
        Err("it is not static".to_owned())
    } else {
        Ok(())
    }
}

fn path(variable: &str) -> Result<PathBuf, String> {
    env::var_os(variable)
        .map(PathBuf::from)
        .ok_or_else(|| format!("no {variable}"))
}
