//! What a long text costs that a program has and writes with escapes, in pieces of an octet: SECURITY.md says it.

use super::*;
use crate::credential::spelling::look::LOOKED;

/// Octets that are looked at for each of `text` that comes, one by one; that it is noted is the tally's to say.
fn looked_for_each(text: &str) -> usize {
    let mut guard = guard(&watch());
    LOOKED.set(0);
    for octet in text.as_bytes().chunks(1) {
        guard.look(octet).unwrap();
    }
    LOOKED.get() / text.len()
}

#[test]
fn what_has_begun_is_looked_at_when_there_may_be_something_new_to_see() {
    let sentinel = "gigph-0123456789abcdef";
    let each = |write: fn(u32) -> String| -> String {
        let letters = sentinel.chars();
        letters.map(|letter| write(u32::from(letter))).collect()
    };
    for (spelled, most) in [
        (sentinel.to_owned(), 3),
        (each(|c| format!("%{c:02x}")), 11),
        (each(|c| format!("\\u{c:04x}")), 25),
        (each(|c| format!("&#x{c:07x};")), 52),
    ] {
        let looked = looked_for_each(&spelled);
        assert!(looked <= most, "{looked} for {spelled}");
        // What is over is not looked at again.
        let often = looked_for_each(&spelled.repeat(50));
        assert!(often <= most + 1, "{often} for many of {spelled}");
    }
    // Text in which nothing begins.
    assert!(looked_for_each(&"nothing of it, ".repeat(50)) <= 2);
}

/// What is written with escapes, several on one another, and as it is.
fn written(octet: u8, how: u8) -> String {
    match how {
        0 => format!("%{octet:02x}"),
        1 => format!("\\u{:04x}", u32::from(octet)),
        2 => format!("&#{octet};"),
        3 => format!("%25{octet:02X}"),
        4 => format!("\n{}", char::from(octet)),
        _ => char::from(octet).to_string(),
    }
}

proptest! {
    /// No look is left out that would tell anything.
    #[test]
    fn with_the_octet_that_completes_it_a_value_is_refused(
        how in prop::collection::vec(0_u8..12, VALUE.len()),
        form in any::<prop::sample::Index>(),
        before in "[a-z%&\\\\]{0,20}",
        sizes in prop::collection::vec(1_usize..5, 1..20),
        others in any::<bool>(),
    ) {
        let all = forms(VALUE.as_bytes());
        let (_, value) = &all[form.index(all.len())];
        let how = how.iter().cycle();
        let octets = value.iter().zip(how).enumerate();
        let spelled: String = octets
            .map(|(at, (octet, how))| written(*octet, if at == 0 && *how == 4 { 5 } else { *how }))
            .collect();
        let raw = before + &spelled;
        let watch = if others { crowd() } else { watch() };
        let at_once = |length: usize| guard(&watch).look(&raw.as_bytes()[..length]).is_err();
        let complete = (0..=raw.len()).find(|length| at_once(*length));
        prop_assert!(complete.is_some());
        let (mut guard, mut sizes) = (guard(&watch), sizes.into_iter().cycle());
        let mut came = 0;
        while came < raw.len() {
            let next = (came + sizes.next().unwrap()).min(raw.len());
            let refused = guard.look(&raw.as_bytes()[came..next]).is_err();
            prop_assert_eq!(refused, complete.is_some_and(|at| at <= next), "{} at {}", raw, next);
            if refused {
                break;
            }
            came = next;
        }
    }
}

/// Where many begin alike, as with the value.
fn crowd() -> Arc<Watch> {
    let values = (0..12).map(|number| GuardedValue {
        name: "T".parse().unwrap(),
        version: 1,
        part: Some(0),
        value: Arc::new(SecretBytes::new(if number == 0 {
            VALUE.into()
        } else {
            format!("r3al-val{number:04}-other").into()
        })),
        current: true,
    });
    let guarded = Guarded {
        generation: 1,
        values: values.collect(),
    };
    Arc::new(Watch::new([], &guarded))
}
