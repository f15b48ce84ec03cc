//! `gig secret …`: the vault of this machine. Values go in and never come out.

use std::{fs, time::Duration};

use anyhow::{Context, anyhow, bail};
use gig_policy::SecretName;
use gig_vault::{
    Definition, ParseDefinitionError, ShapeDefinition, UseVaultError, Vault,
    master_key::MasterKeySource,
    provider::ProviderDefinition,
    vault::{Listed, NewVersion, VersionState},
};
use serde_json::json;

mod list;
mod test;

pub(crate) use list::list;
pub(crate) use test::test;

use crate::{
    args::secret::{PassphraseArgs, SecretRmArgs, SecretRotateArgs, SecretSetArgs, ValueArgs},
    exit_status::ExitStatus,
    output,
    secrets::{
        self,
        changes::Changes,
        described,
        intake::{self, Taken},
    },
};

/// `gig secret set NAME`.
///
/// # Errors
/// When the value or the definition is not usable, or the vault cannot be written.
pub(crate) fn set(args: &SecretSetArgs) -> anyhow::Result<ExitStatus> {
    refuse_values(&args.value)?;
    let name = name(&args.name)?;
    let mut definition = definition(args)?;
    let embedded = matches!(definition.provider, ProviderDefinition::Embedded);
    let of_a_value = args.value.file.is_some() || args.value.expires.is_some();
    if !embedded && (of_a_value || args.custody || args.like.is_some()) {
        bail!(
            "{name} has its value from its provider ({}); leave --file, --expires, --custody and --like out",
            definition.provider.name()
        );
    }
    if !args.custody {
        secrets::refuse_passphrase(&args.passphrase, "only --custody takes a passphrase")?;
    }
    // Record and key first: whoever has none should not type a value in vain.
    let changes = Changes::open(args.change.audit.as_deref())?;
    let vault = secrets::open_recorded(&changes)?;
    refuse_another_kind(&vault, args, &name)?;
    if args.custody {
        secrets::unlock(&vault, &args.passphrase, &[name.as_str()])?;
    }
    let taken = match embedded {
        true => Some(intake::value(
            args.value.file.as_deref(),
            args.value.keep_newline,
        )?),
        false => None,
    };
    if let Some(taken) = &taken {
        shape(args, &mut definition, taken)?;
    }
    let new = NewVersion {
        value: taken.as_ref().map(|taken| &taken.value),
        expires: args.value.expires,
        grace: Duration::ZERO,
        custody: args.custody,
    };
    let set = vault.set(&name, &definition, &new);
    let version = changes.close(set.map_err(anyhow::Error::from))?;
    report(&vault, &name, version, taken.as_ref(), args.output.json)
}

/// What is there may be a key that goes nowhere itself: a value alone must not make one of it that does.
fn refuse_another_kind(
    vault: &Vault,
    args: &SecretSetArgs,
    name: &SecretName,
) -> anyhow::Result<()> {
    let is_it = |one: &Listed| one.name == name.as_str() && one.removed.is_none();
    let Some(there) = vault.list()?.into_iter().find(is_it) else {
        return Ok(());
    };
    let is_told = args.kind.is_some() || args.definition.is_some();
    let embedded = there.provider == ProviderDefinition::Embedded.name();
    let is_plain = there.kind == Definition::default().kind.kind().name() && embedded;
    let (is, how) = match (is_told || is_plain, there.custody && !args.custody) {
        (false, _) => (
            format!("of kind {}, its value from: {}", there.kind, there.provider),
            "--kind or --definition defines it anew",
        ),
        (true, true) => ("in custody".to_owned(), "--custody keeps it there"),
        (true, false) => return Ok(()),
    };
    bail!(
        "{name} is {is}, and would be no more: `gig secret rotate {name}` gives it another value; {how}"
    )
}

/// `gig secret rotate NAME`, `gig secret rotate --master`.
///
/// # Errors
/// When the value or key is not usable, or the vault cannot be written.
pub(crate) fn rotate(args: &SecretRotateArgs) -> anyhow::Result<ExitStatus> {
    refuse_values(&args.value)?;
    let Some(text) = &args.name else {
        return match args.change_passphrase {
            true => rotate_passphrase(args),
            false => rotate_master(args),
        };
    };
    let name = name(text)?;
    let changes = Changes::open(args.change.audit.as_deref())?;
    let vault = secrets::open_recorded(&changes)?;
    let listed = vault.listed(&name)?;
    if listed.provider != ProviderDefinition::Embedded.name() {
        bail!(
            "{name} has its value from its provider ({}): change it there",
            listed.provider
        );
    }
    // What is in custody stays in custody.
    match listed.custody {
        true => secrets::unlock(&vault, &args.passphrase, &[name.as_str()])?,
        false => {
            let why = format!("{name} is in nobody's custody");
            secrets::refuse_passphrase(&args.passphrase, &why)?;
        }
    }
    let taken = intake::value(args.value.file.as_deref(), args.value.keep_newline)?;
    let new = NewVersion {
        value: Some(&taken.value),
        expires: args.value.expires,
        grace: args.grace.unwrap_or_default(),
        custody: listed.custody,
    };
    let rotated = vault.rotate(&name, &new);
    let version = changes.close(rotated.map_err(anyhow::Error::from))?;
    let has_end = |listed: &Listed| {
        let mut versions = listed.versions.iter();
        versions.any(|one| one.state == VersionState::Current && one.until.is_some())
    };
    if has_end(&listed) && !has_end(&vault.listed(&name)?) {
        output::remark([format!(
            "the value of before had an end, and version {version} has none: --expires sets one"
        )])?;
    }
    report(&vault, &name, version, Some(&taken), args.output.json)
}

fn rotate_master(args: &SecretRotateArgs) -> anyhow::Result<ExitStatus> {
    let why = "the master key is changed without the passphrase of what is in custody";
    secrets::refuse_passphrase(&args.passphrase, why)?;
    let vault = secrets::open()?;
    let new = MasterKeySource::new_from_env(gig_vault::environment::var_os)?;
    let elsewhere = new.is_some();
    let grace = args.grace.unwrap_or(MASTER_GRACE);
    let changes = Changes::open(args.change.audit.as_deref())?;
    changes.announce("change the master key")?;
    let changed = vault.rotate_master(new, grace).finish();
    changes.close(changed.context(
        "the master key is not changed; if the change had begun, the same command goes on with it",
    ))?;
    let key = vault.master_key_id()?;
    let mut text = format!("the vault is sealed with master key {key}");
    if elsewhere {
        text += ": start gig with the new GIG_MASTER_KEY from now on";
    }
    output::print(args.output.json, &json!({ "master_key": key }), &text)?;
    Ok(ExitStatus::SUCCESS)
}

fn rotate_passphrase(args: &SecretRotateArgs) -> anyhow::Result<ExitStatus> {
    if !secrets::exists()? {
        bail!("there is no passphrase to change: the vault is empty");
    }
    let vault = secrets::open()?;
    if !vault.has_custody()? {
        bail!("{}", UseVaultError::NoCustody);
    }
    let changes = Changes::open(args.change.audit.as_deref())?;
    let old = intake::passphrase(&args.passphrase, "passphrase: ", false)?;
    let from = PassphraseArgs {
        passphrase_file: args.new_passphrase_file.clone(),
        passphrase_fd: args.new_passphrase_fd,
    };
    let new = intake::passphrase(&from, "new passphrase: ", true)?;
    changes.announce("change the passphrase")?;
    let changed = vault.change_passphrase(&old, &new);
    let versions = changes.close(changed.map_err(anyhow::Error::from))?;
    let text = format!(
        "the passphrase is changed; versions in custody under it: {versions}. Start running \
         programs again: what is in custody can be renewed or read anew for none of them (secret_unavailable)"
    );
    output::print(args.output.json, &json!({ "versions": versions }), &text)?;
    Ok(ExitStatus::SUCCESS)
}

/// `gig secret rm NAME`.
///
/// # Errors
/// When there is no such secret, or the vault cannot be written.
pub(crate) fn remove(args: &SecretRmArgs) -> anyhow::Result<ExitStatus> {
    let name = name(&args.name)?;
    if !secrets::exists()? {
        bail!("there is no secret named {name}: the vault is empty");
    }
    let changes = Changes::open(args.change.audit.as_deref())?;
    let vault = secrets::open_recorded(&changes)?;
    let removed = vault.remove(&name, args.version, args.forget);
    let removed = changes.close(removed.map_err(anyhow::Error::from))?;
    let document = json!({
        "name": name.as_str(),
        "version": args.version,
        "ended_versions": removed.versions,
        "forgotten": args.forget,
    });
    let what = match args.version {
        Some(version) => format!("version {version} of {name}"),
        None => name.to_string(),
    };
    let mut text = if args.forget {
        format!("{what} is gone and forgotten")
    } else {
        format!(
            "{what} is revoked; requests that hold its value go on being refused, which is what it is remembered for \
             (--forget forgets it)"
        )
    };
    let is_served = |one: &Listed| {
        let mut versions = one.versions.iter();
        versions.any(|version| version.state == VersionState::Current)
    };
    if args.version.is_some() && !is_served(&vault.listed(&name)?) {
        text += &format!(
            "\n{name} has no value to be used now: `gig secret rotate {name}` gives it one"
        );
    }
    output::print(args.output.json, &document, &text)?;
    Ok(ExitStatus::SUCCESS)
}

fn report(
    vault: &Vault,
    name: &SecretName,
    version: u64,
    taken: Option<&Taken>,
    as_json: bool,
) -> anyhow::Result<ExitStatus> {
    let listed = vault.listed(name)?;
    let stripped = taken.is_some_and(|taken| taken.stripped);
    let doubt = taken.and_then(|taken| secrets::doubt(vault, name, &taken.value));
    let short = doubt.as_ref().is_some_and(|(_, short)| *short);
    let mut document = serde_json::to_value(&listed).context("cannot write the answer")?;
    if let Some(fields) = document.as_object_mut() {
        fields.insert("version".to_owned(), version.into());
        fields.insert("stripped_newline".to_owned(), stripped.into());
        fields.insert("short".to_owned(), short.into());
        fields.insert("common".to_owned(), (doubt.is_some() && !short).into());
    }
    let mut text = match version {
        0 => format!(
            "{name} is defined; its value comes from {}",
            listed.provider
        ),
        version => format!("{name} is stored as version {version}"),
    };
    if stripped {
        text += "\n  one line end after the value was left out (--keep-newline keeps it)";
    }
    if let Some((words, _)) = doubt {
        text += &format!("\n  WARNING: {words}");
    }
    text += &list::in_clear_text(&listed);
    if listed.entrusted {
        text += "\n  WARNING: entrusted: programs may be handed the real value";
    }
    if listed.hands_out {
        text += list::HANDS_OUT;
    }
    output::print(as_json, &document, &text)?;
    Ok(ExitStatus::SUCCESS)
}

fn definition(args: &SecretSetArgs) -> anyhow::Result<Definition> {
    let mut definition = match (&args.definition, &args.kind) {
        (Some(path), _) => {
            let shown = path.display();
            let text = fs::read_to_string(path)
                .with_context(|| format!("cannot read the definition {shown}"))?;
            let told = |error: ParseDefinitionError| anyhow!(error.in_file(&shown.to_string()));
            Definition::parse(&text).map_err(told)?
        }
        (None, Some(kind)) => described::of_kind(kind, "a file for --definition")?,
        (None, None) => Definition::default(),
    };
    definition.entrusted |= args.entrusted;
    Ok(definition)
}

/// The sentinel's shape: as asked, as defined, or as the value suggests.
fn shape(args: &SecretSetArgs, definition: &mut Definition, taken: &Taken) -> anyhow::Result<()> {
    let value = taken.value.expose();
    if let Some(prefix) = &args.like {
        let like = ShapeDefinition::with_prefix(prefix, value);
        definition.shape = Some(like.with_context(|| {
            format!(
                "--like {prefix}: the value does not begin so, or what follows is too short or of \
                 no known alphabet; shape in a definition file says length and alphabet"
            )
        })?);
    } else if args.plain {
        definition.shape = Some(ShapeDefinition::Plain);
    }
    described::shape(definition, value)
}

fn name(text: &str) -> anyhow::Result<SecretName> {
    if text.contains('=') {
        bail!("{ON_THE_COMMAND_LINE}");
    }
    Ok(text.parse::<SecretName>()?)
}

fn refuse_values(args: &ValueArgs) -> anyhow::Result<()> {
    if !args.on_the_command_line.is_empty() {
        bail!("{ON_THE_COMMAND_LINE}");
    }
    if args.expires == Some(Duration::ZERO) {
        bail!(
            "--expires 0s is a value that may never be used: say for how long it may, or leave --expires out"
        );
    }
    Ok(())
}

const ON_THE_COMMAND_LINE: &str = "a value is never taken from the command line, where every process \
    can read it and the shell remembers it: give it on standard input or with --file, and change the \
    one you just typed";
/// Long enough for every session of a day to go on; --grace 0s when the old key is in wrong hands.
const MASTER_GRACE: Duration = Duration::from_secs(24 * 3600);
