//! Private keys in PEM that come back without their armour.

use super::*;

proptest! {
    #[test]
    fn a_private_key_comes_back_as_its_sentinel_without_its_armour(
        key in prop::collection::vec(any::<u8>(), 48..300),
        width in 16..90_usize,
        cut in any::<prop::sample::Index>(),
    ) {
        let value = pem("PRIVATE KEY", &key, 64, "\n");
        let scrub = scrub_of(&[(&value, SENTINEL)]);
        let letters = general_purpose::STANDARD.encode(&key);
        let lines: Vec<&str> = letters.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
        let hex: String = key.iter().map(|octet| format!("{octet:02x}")).collect();
        for (number, text) in [
            letters.clone().into_bytes(),
            lines.join("\r\n").into_bytes(),
            lines.join("\\n").into_bytes(),
            key.clone(),
            hex.clone().into_bytes(),
            value.replace('\n', "\\n").into_bytes(),
        ]
        .into_iter()
        .enumerate()
        {
            let whole = [b"{\"k\": \"", text.as_slice(), b"\"}"].concat();
            let (head, tail) = whole.split_at(cut.index(whole.len()));
            for fit in [Fit::Free, Fit::Exact] {
                let out = through(&scrub, fit, &[head, tail]);
                if fit == Fit::Exact {
                    prop_assert_eq!(out.len(), whole.len(), "{}", number);
                }
                prop_assert!(out.starts_with(b"{\"k\": \"") && out.ends_with(b"\"}"), "{}", number);
                // No part of it that would tell anything.
                let bare: Vec<u8> = out.iter().copied().filter(|octet| !b"\r\n".contains(octet)).collect();
                let bare = String::from_utf8_lossy(&bare).replace("\\n", "");
                for part in letters.as_bytes().windows(24).step_by(8) {
                    let part = std::str::from_utf8(part).unwrap();
                    prop_assert!(!bare.contains(part), "{} {}", number, bare);
                }
                prop_assert!(!out.windows(key.len()).any(|window| window == key), "{}", number);
                prop_assert!(!bare.contains(&hex), "{}", number);
            }
        }
    }
}
