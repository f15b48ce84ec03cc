//! `gig image …`: the images of this machine, which `gig run` and registered servers start from.

use anyhow::Context;
use gig_sandbox::image::{Digest, Reference};
use serde_json::json;

use crate::{
    args::image::{ImageArgs, ImageCommand, ImageRmArgs},
    exit_status::ExitStatus,
    images::{self, About},
    output::{self, printable},
    run::settings::{own_proxy, read_roots},
};

/// `gig image ls|pull|digest|rm`.
///
/// # Errors
/// When an image cannot be had, or not be removed.
pub(crate) fn execute(command: ImageCommand) -> anyhow::Result<ExitStatus> {
    match command {
        ImageCommand::Ls(output) => {
            let kept = images::kept()?;
            output::print(output.json, &json!({ "images": kept }), &listed(&kept))?;
        }
        ImageCommand::Pull(args) => pull(&args)?,
        ImageCommand::Digest(args) => digest(&args)?,
        ImageCommand::Rm(args) => return remove(&args),
    }
    Ok(ExitStatus::SUCCESS)
}

fn pull(args: &ImageArgs) -> anyhow::Result<()> {
    let (ca, proxy) = (read_roots(&args.upstream_ca)?, own_proxy()?);
    let outside = images::outside(ca.as_deref(), proxy.as_ref(), args.image_clear_text);
    let image = images::obtain(&args.image, &outside)?;
    let said = format!(
        "{} is here: {} octets, {} entries{}",
        printable(&image.asked),
        image.about.unpacked,
        image.about.entries,
        if image.fresh { "" } else { "; it was before" }
    );
    output::print(
        args.output.json,
        &json!({ "name": image.asked, "image": image.about, "pulled": image.fresh }),
        &said,
    )
}

fn digest(args: &ImageArgs) -> anyhow::Result<()> {
    let reference: Reference = args.image.parse()?;
    let (ca, proxy) = (read_roots(&args.upstream_ca)?, own_proxy()?);
    let outside = images::outside(ca.as_deref(), proxy.as_ref(), args.image_clear_text);
    let name = reference
        .at(images::resolve(&reference, &outside)?)
        .to_string();
    output::print(
        args.output.json,
        &json!({ "image": name }),
        &printable(&name),
    )
}

fn remove(args: &ImageRmArgs) -> anyhow::Result<ExitStatus> {
    let digest: Digest = match args.image.rsplit_once('@') {
        Some((_, digest)) => digest.parse(),
        None => args.image.parse(),
    }
    .context("an image is removed by its digest; `gig image ls` lists them")?;
    let removed = images::remove(digest)?;
    let said = match removed {
        true => format!("{digest} is removed"),
        false => format!("{digest} is not here"),
    };
    output::print(
        args.output.json,
        &json!({ "digest": digest.to_string(), "removed": removed }),
        &said,
    )?;
    Ok(if removed {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::NO
    })
}

fn listed(kept: &[About]) -> String {
    let lines = kept.iter().map(|about| {
        let (digest, name) = (printable(&about.digest), printable(&about.name));
        format!(
            "{digest}  {:>14}  {}  {name}",
            about.unpacked,
            about.pulled.strftime("%Y-%m-%d")
        )
    });
    let lines: Vec<String> = lines.collect();
    match lines.is_empty() {
        true => "no images".to_owned(),
        false => lines.join("\n"),
    }
}
