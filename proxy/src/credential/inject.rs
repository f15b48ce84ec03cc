//! Puts values in their sentinels' places in one request.
//!
//! The whole header section is looked at first. What is on its way to where it is not bound stops the
//! request; what is bound is fetched and placed, each value written so that it stays one value in its
//! place. The body gets its guard and its replacements here and meets them while it streams.

use std::sync::Arc;

use gig_policy::{SecretGrant, SecretName, SecretPlace};
use gig_vault::{Keeper, Secret, SecretUnavailable, Treatment};
use http::{HeaderMap, Method, uri::PathAndQuery};

pub(super) use self::fields::basic_credentials;
use self::{late::Late, placer::Placer};
use super::{
    body::{BodyPlan, Trailing},
    bygone,
    capture::Capture,
    memory::Memory,
    misuse::{Bearer, HeadText, Matter, in_method},
    place::{Places, Replacement, Unplaceable, Unplaced},
    scrub::{Scrub, Weakened},
    sign::{certificate::ClientIdentity, treatment, treats_every_request},
    swap::Swappable,
    tally::{Misuse, Tally, Used},
    treat::{Sent, Treat},
    wallet::{Held, Readying, Wallet},
    watch::{Watch, What},
};

mod context;
mod fields;
pub mod late;
mod placer;
mod target;
pub mod trailers;

/// The parts of a request that may hold sentinels; changed in place.
#[derive(Debug)]
pub struct Head<'a> {
    /// The method; nothing may stand in it.
    pub method: &'a Method,
    /// The target as the program wrote it.
    pub written: Option<PathAndQuery>,
    /// Path and query.
    pub target: &'a mut PathAndQuery,
    /// The header section.
    pub headers: &'a mut HeaderMap,
    /// Whether a body follows.
    pub has_body: bool,
}

impl Head<'_> {
    fn as_sent(&self) -> Sent {
        let target = self.written.as_ref().unwrap_or(self.target);
        Sent {
            target: target.clone(),
            headers: self.headers.clone(),
        }
    }
}

/// A request whose header section is ready.
#[derive(Debug)]
pub struct Carried {
    /// What it did with secrets so far, and will do.
    pub tally: Arc<Tally>,
    /// What happens to its body.
    pub body: Option<BodyPlan>,
    /// What completes it before it is sent.
    pub treats: Vec<Arc<dyn Treat>>,
    /// Some secret is bound to where it goes.
    pub bound: bool,
    /// What its connection shows the origin.
    pub identity: Option<ClientIdentity>,
    /// What becomes of the tokens in its answer.
    pub capture: Option<Capture>,
    /// What the program wrote, where something that completes the request wants to see it.
    pub sent: Option<Box<Sent>>,
    /// What may be revoked before it goes.
    pub late: Option<Late>,
    /// A value stands in it. What only signs or shows a certificate gives none away.
    pub placed: bool,
    /// What its sandbox must not see in its answer.
    pub scrub: Option<Arc<Scrub>>,
    /// What its bodies hold while they are taken apart is taken from here.
    pub memory: Arc<Memory>,
    /// Which entity tags its sandbox was shown as weak.
    pub weakened: Arc<Weakened>,
    /// Who says whether a secret may still be used.
    pub keeper: Arc<dyn Keeper>,
}

impl Carried {
    /// The secrets that are in it so far, and those that will complete it: for the record that is made of it now.
    #[must_use]
    pub fn used(&self) -> Used {
        for treat in &self.treats {
            let secret = treat.secret();
            self.tally.uses(&secret.name, secret.version);
        }
        self.tally.take_untold().unwrap_or_default()
    }
}

/// A request that must not go.
#[derive(Debug)]
pub enum Stopped {
    /// Something in it is on its way to where it is not bound.
    Misuse(Vec<Misuse>),
    /// A secret that it asks for cannot be had.
    Unavailable(SecretUnavailable),
    /// A value cannot stand where its sentinel stands.
    Unplaceable(Unplaced),
}

/// Readies a request of the wallet's sandbox that may carry `granted`, to where others may carry `bound`.
///
/// # Errors
/// [`Stopped`]: nothing of it may go.
pub async fn carry(
    wallet: &Arc<Wallet>,
    (granted, bound): (&[SecretGrant], &[SecretGrant]),
    head: Head<'_>,
) -> Result<Carried, Stopped> {
    wallet.forget_expired();
    let granted = &*wallet.placed(granted);
    let watch = wallet.border().watch();
    let tally = Arc::new(Tally::default());
    let bearer = Bearer {
        sandbox: wallet.sandbox(),
        granted,
    };
    let (wanted, values) = look((&watch, &tally), &bearer, &head)?;
    bygone::note(&watch, head.headers, &tally);
    let mut treats = Vec::new();
    let identity = treat_granted(wallet, granted, &mut treats).await?;
    if let Some(identity) = &identity {
        tally.swapped(&identity.secret().name, identity.secret().version);
    }
    let (mut sent, mut placed, mut late) = (None, false, Vec::new());
    if !wanted.is_empty() {
        let replacements = sort_out(wallet, granted, wanted, &mut treats).await?;
        if treats.iter().any(|treat| treat.wants_sent()) {
            sent = Some(Box::new(head.as_sent()));
        }
        for (name, replacements) in replacements {
            let kept = replacements.iter().find(|r| r.keeper.is_some());
            late.extend(kept.map(|replacement| Arc::clone(&replacement.secret)));
            placed |= place(
                replacements,
                &name,
                (head.target, head.headers),
                (&watch, &tally),
            )?;
        }
    }
    let body = if head.has_body {
        let plan = plan_body(wallet, (&watch, &bearer), &tally, (head.headers, values));
        Some(plan.await)
    } else {
        None
    };
    let keeper = wallet.border().keeper();
    Ok(Carried {
        late: Late::of(keeper, late, &treats, body.as_ref(), &tally),
        body,
        treats,
        bound: !(granted.is_empty() && bound.is_empty()),
        identity,
        capture: Capture::of(wallet, granted, &tally),
        tally,
        sent,
        placed,
        // Last, so that it knows what was fetched for this request.
        // What another request gave the host may come back in this one's answer.
        scrub: wallet.scrub(bound),
        memory: Arc::clone(wallet.memory()),
        weakened: Arc::clone(wallet.weakened()),
        keeper: Arc::clone(keeper),
    })
}

/// What a request carries that is denied anyway, to where no rule lets it go: no secret is bound there.
/// Whoever steals a key sends it there first, and shall be told of as one.
#[must_use]
pub fn carried_astray(wallet: &Wallet, head: &Head<'_>) -> Option<Vec<Misuse>> {
    wallet.forget_expired();
    let bearer = Bearer {
        sandbox: wallet.sandbox(),
        granted: &[],
    };
    // Nothing of the request goes on, so nothing that is merely noted is told.
    let tally = Tally::default();
    match look((&wallet.border().watch(), &tally), &bearer, head) {
        Err(Stopped::Misuse(misuses)) => Some(misuses),
        Ok(_) | Err(Stopped::Unavailable(_) | Stopped::Unplaceable(_)) => None,
    }
}

/// Tells the wanted secrets that complete the request, which go to `treats`, from those whose values are
/// placed in it.
async fn sort_out(
    wallet: &Wallet,
    granted: &[SecretGrant],
    wanted: Vec<SecretName>,
    treats: &mut Vec<Arc<dyn Treat>>,
) -> Result<Vec<(SecretName, Vec<Replacement>)>, Stopped> {
    let held = wallet.held();
    let mut placed = Vec::new();
    for name in wanted {
        if treats.iter().any(|treat| treat.secret().name == name) {
            continue;
        }
        // Captured tokens are of different versions, so each is placed by itself.
        let captured = captured(&held, &name, granted).into_iter();
        placed.extend(captured.map(|replacement| (name.clone(), vec![replacement])));
        if of(&held, &name).next().is_none() {
            continue;
        }
        let secret = fetch(wallet, &name).await.map_err(Stopped::Unavailable)?;
        let sentinels: Vec<_> = of(&held, &name).map(|h| Arc::clone(&h.sentinel)).collect();
        match treatment(&secret, &sentinels) {
            Some(treat) => treats.push(treat),
            None => {
                let held = (&**held, wallet.border().keeper());
                placed.push((name, replacements(held, &secret, granted)));
            }
        }
    }
    Ok(placed)
}

/// Places the values of one version of a secret in the header section, and tells whether any was.
fn place(
    replacements: Vec<Replacement>,
    name: &SecretName,
    (target, headers): (&mut PathAndQuery, &mut HeaderMap),
    (watch, tally): (&Arc<Watch>, &Tally),
) -> Result<bool, Stopped> {
    let version = replacements.first().map_or(0, |first| first.secret.version);
    let mut placer = Placer {
        replacements,
        misplaced: Vec::new(),
        at: None,
        watch: Some(Arc::clone(watch)),
    };
    let placed = placer.place(target, headers);
    let placed = placed.map_err(|why| placer.unplaced(name, why))?;
    if placed {
        tally.swapped(name, version);
    }
    if placer.misplaced.is_empty() {
        Ok(placed)
    } else {
        Err(Stopped::Misuse(placer.misuses(name)))
    }
}

/// Adds the treatments that need no sentinel in the request, and gives the certificate for its connection.
async fn treat_granted(
    wallet: &Wallet,
    granted: &[SecretGrant],
    treats: &mut Vec<Arc<dyn Treat>>,
) -> Result<Option<ClientIdentity>, Stopped> {
    let mut identity = None;
    for name in wallet.treating() {
        if !granted.iter().any(|grant| grant.name == name) {
            continue;
        }
        let secret = fetch(wallet, &name).await.map_err(Stopped::Unavailable)?;
        if matches!(secret.treatment, Treatment::ClientCertificate) {
            if let Some(first) = identity.replace(ClientIdentity::new(secret)) {
                // Two certificates cannot be shown at once.
                let shown = &first.secret().name;
                return Err(Stopped::Unplaceable(Unplaced {
                    name,
                    place: format!("a connection that shows the certificate of {shown}"),
                    why: Unplaceable::Second,
                }));
            }
        } else if treats_every_request(&secret.treatment) {
            treats.extend(treatment(&secret, &[]));
        }
    }
    Ok(identity)
}

/// The secrets whose sentinels the header section holds, and its values where a trailer section may come.
fn look(
    (watch, tally): (&Watch, &Tally),
    bearer: &Bearer<'_>,
    head: &Head<'_>,
) -> Result<(Vec<SecretName>, Arc<[u8]>), Stopped> {
    if watch.is_empty() {
        return Ok((Vec::new(), Arc::default()));
    }
    let target = (head.target.path(), head.target.query());
    let text = HeadText::of(head.method, target, head.headers);
    let misused = in_method(watch, bearer.sandbox, head.method);
    let wanted = judged(&text, (watch, bearer, tally), misused.into_iter().collect())?;
    let values = head.has_body.then(|| text.into_values(watch));
    Ok((wanted, values.unwrap_or_default()))
}

/// The secrets whose sentinels a section holds, if nothing in it goes astray beside what did.
fn judged(
    text: &HeadText,
    (watch, bearer, tally): (&Watch, &Bearer<'_>, &Tally),
    mut misuses: Vec<Misuse>,
) -> Result<Vec<SecretName>, Stopped> {
    let mut wanted = Vec::new();
    text.find(watch, |found, place| match bearer.judge(found, true) {
        Matter::Fine => {
            let own = matches!(found.what, What::Sentinel(_));
            if own && !wanted.contains(&found.name) {
                wanted.push(found.name.clone());
            }
            bearer.tell_held(tally, found, &place);
        }
        Matter::Noted | Matter::Refused => {
            let misuse = bearer.misuse(found, &place);
            if !misuses.contains(&misuse) {
                misuses.push(misuse);
            }
        }
    });
    if misuses.is_empty() {
        Ok(wanted)
    } else {
        Err(Stopped::Misuse(misuses))
    }
}

/// The current version, without waiting where it is at hand.
async fn fetch(wallet: &Wallet, name: &SecretName) -> Result<Arc<Secret>, SecretUnavailable> {
    let keeper = wallet.border().keeper();
    match keeper.at_hand(name) {
        Some(secret) => Ok(secret),
        None => keeper.current(name).await,
    }
}

/// The sentinels of a secret that the keeper has.
fn of<'a>(held: &'a [Held], name: &SecretName) -> impl Iterator<Item = &'a Held> {
    let name = name.clone();
    held.iter()
        .filter(move |held| held.name == name && held.captured.is_none())
}

/// What stands for tokens that were captured under this name.
fn captured(held: &[Held], name: &SecretName, granted: &[SecretGrant]) -> Vec<Replacement> {
    let replacement = |held: &Held| {
        let captured = held.captured.as_ref().filter(|_| held.name == *name)?;
        Some(Replacement {
            sentinel: Arc::clone(&held.sentinel),
            secret: Arc::clone(&captured.secret),
            part: 0,
            places: Places::of(name, granted),
            keeper: None,
        })
    };
    held.iter().filter_map(replacement).collect()
}

fn replacements(
    (held, keeper): (&[Held], &Arc<dyn Keeper>),
    secret: &Arc<Secret>,
    granted: &[SecretGrant],
) -> Vec<Replacement> {
    let replacement = |held: &Held| Replacement {
        sentinel: Arc::clone(&held.sentinel),
        secret: Arc::clone(secret),
        part: held.part,
        places: Places::of(&secret.name, granted),
        keeper: Some(Arc::clone(keeper)),
    };
    of(held, &secret.name).map(replacement).collect()
}

/// What happens to the body: it is looked at, and sentinels that may stand in it are replaced.
async fn plan_body(
    wallet: &Wallet,
    (watch, bearer): (&Arc<Watch>, &Bearer<'_>),
    tally: &Arc<Tally>,
    (headers, before): (&HeaderMap, Arc<[u8]>),
) -> BodyPlan {
    let mut swappable = Vec::new();
    let mut trailing = Trailing {
        before,
        ..Trailing::default()
    };
    let held = wallet.held();
    for name in names(bearer.granted) {
        let in_body = may_stand_in_body(name, bearer.granted);
        let is_held = of(&held, name).next().is_some();
        let secret = match (is_held, in_body) {
            (true, true) => fetch(wallet, name).await.ok(),
            // Hardly ever is it in the trailers: nobody is asked for it.
            (true, false) => wallet.border().keeper().usable(name),
            (false, _) => None,
        };
        if is_held && secret.is_none() {
            trailing.lost.push(name.clone());
        }
        let to = match in_body {
            true => &mut swappable,
            false => &mut trailing.swappable,
        };
        add_swappable(wallet, (&held, name, bearer.granted), secret, to);
    }
    let shared = (tally, wallet.memory());
    BodyPlan::new(headers, (watch, bearer), (swappable, trailing), shared)
}

/// What may be swapped into a body now, without waiting for anything.
pub(crate) fn swappable_now(wallet: &Wallet, granted: &[SecretGrant]) -> Vec<Swappable> {
    let mut swappable = Vec::new();
    let held = wallet.held();
    for name in in_bodies(granted) {
        let secret = wallet.border().keeper().usable(name);
        add_swappable(wallet, (&held, name, granted), secret, &mut swappable);
    }
    swappable
}

/// What has to be waited for, so that [`swappable_now`] finds what there is.
pub(crate) fn readied(wallet: &Wallet, granted: &[SecretGrant]) -> Option<Readying> {
    let held = wallet.held();
    let wanted = in_bodies(granted).into_iter();
    let wanted = wanted.filter(|name| of(&held, name).next().is_some());
    wallet.border().readied(wanted)
}

/// The secrets that may stand in a body.
fn in_bodies(granted: &[SecretGrant]) -> Vec<&SecretName> {
    let mut names = names(granted);
    names.retain(|name| may_stand_in_body(name, granted));
    names
}

/// Each secret once.
fn names(granted: &[SecretGrant]) -> Vec<&SecretName> {
    let mut names: Vec<&SecretName> = granted.iter().map(|grant| &grant.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn may_stand_in_body(name: &SecretName, granted: &[SecretGrant]) -> bool {
    Places::of(name, granted).allow(|place| *place == SecretPlace::Body)
}

/// The sentinels of one secret, with the values of `secret` if it can be had.
fn add_swappable(
    wallet: &Wallet,
    (held, name, granted): (&[Held], &SecretName, &[SecretGrant]),
    secret: Option<Arc<Secret>>,
    swappable: &mut Vec<Swappable>,
) {
    let captured = captured(held, name, granted).into_iter();
    swappable.extend(captured.map(Swappable::Ready));
    match secret {
        Some(secret) if treatment(&secret, &[]).is_none() => {
            let replacements = replacements((held, wallet.border().keeper()), &secret, granted);
            swappable.extend(replacements.into_iter().map(Swappable::Ready));
        }
        Some(_) => {}
        // Whether the body asks for it is not known yet.
        None => {
            let sentinels = of(held, name).map(|held| Arc::clone(&held.sentinel));
            swappable.extend(sentinels.map(Swappable::Unavailable));
        }
    }
}
