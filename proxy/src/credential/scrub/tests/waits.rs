//! What passes at once: nothing that is not granted is ever waited for, wherever anything is cut.

use bytes::Bytes;
use gig_policy::SandboxId;
use gig_vault::{Keeper, Part, Secret, SecretFuture, SecretUnavailable, Shape, Treatment};

use super::{
    super::{
        grpc::Messages,
        work::{Rewriter, Step, Work},
    },
    *,
};
use crate::credential::{
    Border,
    coding::{Coding, Decoder},
    memory::Memory,
    websocket::{Frames, Sender},
};

const PAIRS: [(&str, &str); 2] = [
    (VALUE, SENTINEL),
    ("p%41ss\\n&amp;w0rd-with-escapes%", "gigph-another"),
];

/// All that is known to be a form of a value, or to begin like one.
fn written() -> Vec<String> {
    let of = |(value, _): &(&str, &str)| {
        let encoded = (0..3).map(|n| general_purpose::STANDARD.encode("x".repeat(n) + value));
        let all = forms(value).into_iter().map(|(_, form)| form);
        all.chain(encoded).collect::<Vec<_>>()
    };
    PAIRS.iter().flat_map(of).collect()
}

/// As much of each form as is no whole value yet: the last characters of a Base64 text are not the value's
/// alone.
fn begun() -> impl Iterator<Item = Vec<u8>> {
    let forms = written().into_iter();
    forms.map(|form| form.as_bytes()[..form.len() - 8].to_vec())
}

#[test]
fn what_is_not_granted_passes_at_once_however_it_begins() {
    let scrub = granted(&PAIRS, &[]);
    for begun in begun() {
        let shown = String::from_utf8_lossy(&begun);
        for fit in [Fit::Free, Fit::Events, Fit::Exact] {
            let mut scrubber = scrub.scrubber(fit);
            let mut out = Vec::new();
            for (number, octet) in begun.chunks(1).enumerate() {
                scrubber.push(octet, &mut out).unwrap();
                assert_eq!((out.len(), scrubber.held()), (number + 1, 0), "{shown}");
            }
            assert_eq!(out, begun, "{shown}");
        }
        for length in (1..begun.len()).step_by(5) {
            let begun = &begun[..length];
            let mut scrubber = scrub.scrubber(Fit::Free);
            let behind = [b"data: \"".as_slice(), begun].concat();
            assert_eq!(scrubber.pass(Bytes::from(behind.clone())), behind);
            assert_eq!(scrubber.pass(Bytes::from_static(b" g")), " g");
            assert_eq!(scrubber.pass(Bytes::copy_from_slice(begun)), begun);
        }
    }
}

#[test]
fn a_message_and_a_coded_body_wait_for_nothing_that_is_not_granted() {
    let scrub = granted(&PAIRS, &[]);
    for begun in begun() {
        let mut messages = Messages::new(
            Scrubbers::new(&scrub, Fit::Exact),
            None,
            Memory::of_sandbox(),
        );
        let length = u32::try_from(begun.len() + 1).unwrap();
        let message = [&[0][..], &length.to_be_bytes(), &begun].concat();
        let mut out = Vec::new();
        for (number, octet) in begun.chunks(1).enumerate() {
            if number == 0 {
                messages.push(&message[..5], &mut out).unwrap();
            }
            messages.push(octet, &mut out).unwrap();
            assert_eq!((out.len(), messages.held()), (number + 6, 0));
        }
        assert_eq!(out, message);
        // Stored blocks of deflate: what is in them is there when they are.
        let decoder = Decoder::new(&[Coding::Deflate], &Memory::of_sandbox()).unwrap();
        let scrubber = || Scrubbers::new(&scrub, Fit::Exact);
        let mut work = Work::looking(
            (decoder, Memory::of_sandbox().share()),
            scrubber(),
            Rewriter::Body(scrubber()),
        );
        for octet in begun.chunks(1) {
            let block = [&[0, 1, 0, 0xfe, 0xff][..], octet].concat();
            work.feed(Bytes::from(block.clone()));
            assert_eq!(stepped(&mut work), block);
        }
    }
}

#[test]
fn a_fragment_of_a_websocket_message_waits_for_nothing_that_is_not_granted() {
    let scrub = granted(&PAIRS, &[]);
    for begun in begun() {
        let scrub = Arc::clone(&scrub);
        let make = move |_| -> Box<dyn Rewrite> { Box::new(scrub.scrubber(Fit::Free)) };
        let mut frames = Frames::new(Sender::Server, Box::new(make));
        for (number, octet) in begun.iter().enumerate() {
            // A text message that goes on, then fragments of it.
            let fragment = [u8::from(number == 0), 1, *octet];
            let mut out = Vec::new();
            frames.push(&fragment, &mut out).unwrap();
            assert_eq!(out, fragment);
        }
    }
}

/// What comes of what was fed so far.
fn stepped(work: &mut Work) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        match work.step().unwrap() {
            Step::Out(data) => out.extend_from_slice(&data),
            Step::On => {}
            Step::Dry => return out,
        }
    }
}

#[test]
fn a_whole_value_that_is_not_granted_is_replaced_and_so_is_the_rest_of_one() {
    let scrub = granted(&PAIRS, &[]);
    let whole = format!("x {VALUE} y");
    assert_eq!(
        text(through(&scrub, Fit::Free, &[whole.as_bytes()])),
        format!("x {SENTINEL} y")
    );
    for cut in 3..VALUE.len() + 1 {
        let (head, tail) = whole.as_bytes().split_at(cut);
        let mut scrubber = scrub.scrubber(Fit::Free);
        let mut out = Vec::new();
        scrubber.push(head, &mut out).unwrap();
        assert_eq!(out, head);
        scrubber.push(tail, &mut out).unwrap();
        let got = text(out);
        assert!(!got.contains(VALUE), "{got}");
        assert!(got.ends_with(&format!("{SENTINEL} y")), "{got}");
        let exact = through(&scrub, Fit::Exact, &[head, tail]);
        assert_eq!(exact.len(), whole.len());
        assert!(!text(exact).contains(VALUE));
    }
}

#[test]
fn a_value_that_waited_for_a_longer_one_does_not_pass_when_nothing_more_comes() {
    let pairs = [
        ("abcdefgh", "gigph-short"),
        ("abcdefghijkl", "gigph-long"),
        ("xabcdefghZZ", "gigph-other"),
    ];
    let scrub = scrub_of(&pairs);
    for (given, expected) in [
        ("1abcdefgh", "1gigph-short"),
        ("1xabcdefgh", "1xgigph-short"),
    ] {
        let mut scrubber = scrub.scrubber(Fit::Free);
        let mut out = Vec::new();
        scrubber.push(given.as_bytes(), &mut out).unwrap();
        assert_eq!(out, b"1");
        scrubber.release(&mut out).unwrap();
        assert_eq!((text(out), scrubber.held()), (expected.to_owned(), 0));
    }
}

proptest! {
    #[test]
    fn nothing_waits_where_nothing_is_granted(
        fragments in prop::collection::vec(fragment(), 0..6),
        cuts in prop::collection::vec(1_usize..40, 0..40),
    ) {
        let whole = fragments.concat();
        let scrub = granted(&PAIRS, &[]);
        let mut scrubber = scrub.scrubber(Fit::Exact);
        let (mut rest, mut out, mut given) = (whole.as_bytes(), Vec::new(), 0);
        for cut in cuts {
            let (piece, more) = rest.split_at(rest.len().min(cut));
            rest = more;
            given += piece.len();
            scrubber.push(piece, &mut out).unwrap();
            // All of it, but for the end of a Base64 text in which a value was replaced.
            prop_assert!(out.len() == given || scrubber.held() < 24, "{} of {}", out.len(), given);
            if !scrubber.has_found() {
                prop_assert_eq!(out.len(), given);
            }
        }
    }
}

/// Three secrets: one that is placed and was rotated, one that signs, one that another sandbox holds.
#[derive(Debug)]
struct Three(Vec<Arc<Secret>>, Arc<Guarded>);

impl Three {
    /// A temporary AWS key, with what is watched for of it.
    fn aws() -> Self {
        let part = |variable: &str, value: &str| Part {
            variable: variable.into(),
            value: SecretBytes::from(value),
            shape: Shape::Plain,
        };
        let parts = [
            ("KEY", "ASIAKEYKEYKEYKEY"),
            ("KEY_SECRET_ACCESS_KEY", "secret.access.key"),
            ("KEY_SESSION_TOKEN", "session.token.of.it"),
        ];
        let secret = Secret {
            name: "KEY".parse().unwrap(),
            version: 1,
            parts: parts
                .iter()
                .map(|(name, value)| part(name, value))
                .collect(),
            treatment: Treatment::Aws(Arc::default()),
            entrusted: false,
        };
        let guarded = (1..).zip(parts.iter().skip(1));
        let guarded = guarded.map(|(part, (_, value))| GuardedValue {
            name: "KEY".parse().unwrap(),
            version: 1,
            part: Some(part),
            value: Arc::new(SecretBytes::from(*value)),
            current: true,
        });
        let guarded = Guarded {
            generation: 1,
            values: guarded.collect(),
        };
        Self(vec![Arc::new(secret)], Arc::new(guarded))
    }

    fn new() -> Self {
        let secret = |name: &str, value: &str, treatment| {
            Arc::new(Secret {
                name: name.parse().unwrap(),
                version: 2,
                parts: vec![Part {
                    variable: name.into(),
                    value: SecretBytes::new(value.as_bytes().to_vec()),
                    shape: Shape::Plain,
                }],
                treatment,
                entrusted: false,
            })
        };
        let guarded = |name: &str, value: &str, current| GuardedValue {
            name: name.parse().unwrap(),
            version: 1,
            part: Some(0).filter(|_| !value.starts_with("gig.")),
            value: Arc::new(SecretBytes::new(value.as_bytes().to_vec())),
            current,
        };
        let values = vec![
            guarded("PLACED", "placed.value.now", true),
            guarded("PLACED", "placed.value.once", false),
            guarded("PLACED", "gig.alone.uses.it", false),
            guarded("SIGNS", "signing.value.now", true),
            guarded("SIGNS", "signing.value.once", false),
            guarded("OTHERS", "others.value.now", true),
        ];
        Self(
            vec![
                secret("PLACED", "placed.value.now", Treatment::Replace),
                secret("SIGNS", "signing.value.now", Treatment::ClientCertificate),
                secret("OTHERS", "others.value.now", Treatment::Replace),
            ],
            Arc::new(Guarded {
                generation: 1,
                values,
            }),
        )
    }
}

impl Keeper for Three {
    /// All are due for renewal, and what comes back is what they are until then.
    fn at_hand(&self, _: &SecretName) -> Option<Arc<Secret>> {
        None
    }

    fn usable(&self, name: &SecretName) -> Option<Arc<Secret>> {
        self.0.iter().find(|secret| secret.name == *name).cloned()
    }

    fn current<'a>(&'a self, name: &'a SecretName) -> SecretFuture<'a> {
        let found = self.usable(name);
        let unknown = || SecretUnavailable::Unknown { name: name.clone() };
        Box::pin(async move { found.ok_or_else(unknown) })
    }

    fn guarded(&self) -> Arc<Guarded> {
        Arc::clone(&self.1)
    }
}

#[test]
fn only_what_an_origin_may_be_sent_is_waited_for_and_what_others_hold_is_not_looked_for() {
    let keeper = Three::new();
    let secrets = keeper.0.clone();
    let border = Border::new(Arc::new(keeper));
    let wallet = border.wallet(SandboxId::new(uuid::Uuid::from_u128(1)));
    wallet.hold(&secrets[0]).unwrap();
    wallet.hold(&secrets[1]).unwrap();
    let all = ["PLACED", "SIGNS", "OTHERS"];
    let grants = |names: &[&str]| -> Vec<SecretGrant> {
        let names = names.iter().map(|name| name.parse().unwrap());
        names.map(SecretGrant::everywhere).collect()
    };
    let held = |granted: &[&str], octets: &str| {
        let mut scrubber = wallet.scrub(&grants(granted)).unwrap().scrubber(Fit::Free);
        scrubber.push(octets.as_bytes(), &mut Vec::new()).unwrap();
        scrubber.held()
    };
    assert_eq!(held(&all, "placed.value.n"), 14);
    assert_eq!(held(&["SIGNS", "OTHERS"], "placed.value.n"), 0);
    let capture = SecretGrant {
        captures: true,
        ..SecretGrant::everywhere("PLACED".parse().unwrap())
    };
    let scrub = wallet.scrub(&[capture]).unwrap();
    let mut scrubber = scrub.scrubber(Fit::Free);
    scrubber.push(b"placed.val", &mut Vec::new()).unwrap();
    assert_eq!(scrubber.held(), 0, "nothing is swapped in here");
    assert_eq!(held(&all, "placed.value.onc"), 16);
    assert_eq!(held(&["SIGNS", "OTHERS"], "placed.value.onc"), 0);
    for other in ["gig.alone.uses", "signing.value.", "others.value."] {
        assert_eq!(held(&all, other), 0, "{other}");
    }
    let whole = |value: &str| {
        let scrub = wallet.scrub(&grants(&all)).unwrap();
        text(through(&scrub, Fit::Free, &[value.as_bytes()]))
    };
    let sentinel = |at: usize| wallet.held()[at].sentinel.to_string();
    assert_eq!(whole("placed.value.now"), sentinel(0));
    assert_eq!(whole("placed.value.once"), sentinel(0));
    assert_eq!(whole("signing.value.now"), sentinel(1));
    assert_eq!(whole("others.value.now"), "others.value.now");
}

#[test]
fn a_session_token_is_waited_for_and_the_key_that_signs_is_not() {
    let keeper = Three::aws();
    let secrets = keeper.0.clone();
    let border = Border::new(Arc::new(keeper));
    let wallet = border.wallet(SandboxId::new(uuid::Uuid::from_u128(1)));
    wallet.hold(&secrets[0]).unwrap();
    let grant = [SecretGrant::everywhere("KEY".parse().unwrap())];
    let scrub = wallet.scrub(&grant).unwrap();
    for (begun, held) in [("session.token.of", 16), ("secret.access.k", 0)] {
        let mut scrubber = scrub.scrubber(Fit::Free);
        scrubber.push(begun.as_bytes(), &mut Vec::new()).unwrap();
        assert_eq!(scrubber.held(), held, "{begun}");
    }
    // Downloads of what is signed for go on where they stopped.
    assert!(!scrub.places());
    let elsewhere = wallet
        .scrub(&[])
        .unwrap()
        .scrubber(Fit::Free)
        .pass(Bytes::from_static(b"session.to"));
    assert_eq!(elsewhere, "session.to");
}

/// Knows values, and what none of them is worth now.
#[derive(Debug)]
struct Unasked(Arc<Guarded>);

impl Keeper for Unasked {
    fn at_hand(&self, _: &SecretName) -> Option<Arc<Secret>> {
        None
    }

    fn current<'a>(&'a self, name: &'a SecretName) -> SecretFuture<'a> {
        let name = name.clone();
        Box::pin(async move { Err(SecretUnavailable::Unknown { name }) })
    }

    fn guarded(&self) -> Arc<Guarded> {
        Arc::clone(&self.0)
    }
}

/// Whether nothing of the value but what tells little is seen, wherever it is cut, octet by octet, and however
/// long nothing more comes.
fn hides(scrub: &Arc<Scrub>, value: &str) -> bool {
    let few = value.len() / 4;
    let octets = value.as_bytes();
    let pieces = |cut| {
        let (head, tail) = octets.split_at(cut);
        let mut scrubber = scrub.scrubber(Fit::Free);
        let mut out = Vec::new();
        for piece in head.chunks(1) {
            scrubber.push(piece, &mut out).unwrap();
            scrubber.release(&mut out).unwrap();
        }
        let shown = out.len() <= few.max(5);
        scrubber.push(tail, &mut out).unwrap();
        scrubber.finish(&mut out).unwrap();
        let begun = value.get(..few.max(5) + 1).unwrap();
        shown && !text(out).contains(begun)
    };
    (0..octets.len()).all(pieces)
}

#[test]
fn a_former_value_and_one_that_is_not_at_hand_are_hidden_from_their_first_octets_on() {
    let known = Three::new();
    let (placed, signs) = (Arc::clone(&known.0[0]), Arc::clone(&known.0[1]));
    let guarded = Arc::clone(&known.1);
    let keepers: [Arc<dyn Keeper>; 2] = [Arc::new(known), Arc::new(Unasked(guarded))];
    let grants = ["PLACED", "SIGNS"].map(|name| SecretGrant::everywhere(name.parse().unwrap()));
    for keeper in keepers {
        let wallet = Border::new(keeper).wallet(SandboxId::new(uuid::Uuid::from_u128(1)));
        wallet.hold(&placed).unwrap();
        wallet.hold(&signs).unwrap();
        let scrub = wallet.scrub(&grants).unwrap();
        for value in ["placed.value.now", "placed.value.once"] {
            assert!(hides(&scrub, value), "{value}");
        }
        for value in [
            "gig.alone.uses.it",
            "signing.value.now",
            "signing.value.once",
        ] {
            // No host is sent it: who sees it wait would learn that a beginning is right.
            let mut scrubber = scrub.scrubber(Fit::Free);
            let begun = value.as_bytes().get(..value.len() - 1).unwrap();
            scrubber.push(begun, &mut Vec::new()).unwrap();
            // A last letter or two may begin anything in Base64.
            assert!(scrubber.held() < 4, "{value}");
        }
    }
}

#[test]
fn a_host_that_may_be_sent_a_value_is_asked_for_no_range_before_a_new_version_was_used() {
    let known = Three::new();
    let border = Border::new(Arc::new(Unasked(Arc::clone(&known.1))));
    let wallet = border.wallet(SandboxId::new(uuid::Uuid::from_u128(1)));
    wallet.hold(&known.0[0]).unwrap();
    let grant = |name: &str| [SecretGrant::everywhere(name.parse().unwrap())];
    assert!(wallet.scrub(&grant("PLACED")).unwrap().places());
    assert!(!wallet.scrub(&grant("OTHERS")).unwrap().places());
    assert!(!wallet.scrub(&[]).unwrap().places());
}
