//! What a body may hold, wherever it is cut.

use gig_vault::{Guarded, GuardedValue, SecretBytes};
use proptest::prelude::*;

use super::*;
use crate::credential::{forms::forms, watch::LiveSentinel};

pub(super) const VALUE: &str = "r3al-value/of+it==";

pub(super) fn watch() -> Arc<Watch> {
    let guarded = Guarded {
        generation: 1,
        values: vec![GuardedValue {
            name: "T".parse().unwrap(),
            version: 1,
            part: Some(0),
            value: Arc::new(SecretBytes::new(VALUE.into())),
            current: true,
        }],
    };
    let sentinel = LiveSentinel {
        sandbox: SandboxId::new(uuid::Uuid::nil()),
        name: "T".parse().unwrap(),
        text: "gigph-0123456789abcdef".into(),
    };
    Arc::new(Watch::new([&sentinel], &guarded))
}

pub(super) fn guard(watch: &Arc<Watch>) -> Guard {
    let bearer = Bearer {
        sandbox: SandboxId::new(uuid::Uuid::nil()),
        granted: &[],
    };
    Guard::new(watch, &bearer, "body", &Arc::default())
}

/// Whether the pieces are refused, and that it is not before the last octet of the find is there.
fn refused_at(pieces: &[&[u8]]) -> Option<usize> {
    let mut guard = guard(&watch());
    pieces.iter().position(|piece| guard.look(piece).is_err())
}

#[test]
fn a_value_in_any_form_is_refused_wherever_it_is_cut() {
    let percent: String = VALUE.bytes().map(|b| format!("%{b:02x}")).collect();
    let unicode: String = VALUE.bytes().map(|b| format!("\\u{b:04X}")).collect();
    let entity: String = VALUE.bytes().map(|b| format!("&#{b};")).collect();
    let mixed = VALUE
        .replace('-', "%252D")
        .replace('/', "\\/")
        .to_uppercase();
    let mut texts = vec![
        percent.into_bytes(),
        unicode.into_bytes(),
        entity.into_bytes(),
    ];
    texts.push(mixed.into_bytes());
    texts.extend(
        forms(VALUE.as_bytes())
            .into_iter()
            .map(|(_, octets)| octets.to_vec()),
    );
    for text in texts {
        let text = [b"some text before ".as_slice(), &text, b" after".as_slice()].concat();
        for cut in 0..text.len() {
            let pieces = [&text[..cut], &text[cut..]];
            let shown = String::from_utf8_lossy(&text);
            assert!(refused_at(&pieces).is_some(), "{shown} cut at {cut}");
        }
        let octets: Vec<&[u8]> = text.chunks(1).collect();
        let at = refused_at(&octets).expect("one by one");
        assert!(at + b" after".len() < text.len() + 2, "{at}");
    }
}

proptest! {
    #[test]
    fn other_text_passes(text in prop::collection::vec(any::<u8>(), 0..600), cut in 1_usize..50) {
        let pieces: Vec<&[u8]> = text.chunks(cut).collect();
        prop_assert_eq!(refused_at(&pieces), None);
    }
}
