//! A text as a QR code, as an SVG of one path: no script, no style, nothing from elsewhere.

use std::fmt::Write as _;

use qrcodegen::{QrCode, QrCodeEcc};

/// `None` for a text that is longer than a code holds.
pub(crate) fn picture(text: &str) -> Option<String> {
    let code = QrCode::encode_text(text, QrCodeEcc::Medium).ok()?;
    let size = code.size();
    let whole = size + 2 * QUIET;
    let mut path = String::new();
    for y in 0..size {
        for x in (0..size).filter(|x| code.get_module(*x, y)) {
            // A string takes everything.
            let _infallible = write!(path, "M{} {}h1v1h-1z", x + QUIET, y + QUIET);
        }
    }
    // Dark on light whatever the page is: readers want it so.
    Some(format!(
        "<svg class=\"qr\" viewBox=\"0 0 {whole} {whole}\" role=\"img\" \
         aria-label=\"QR code of the address below\" shape-rendering=\"crispEdges\">\
         <rect width=\"{whole}\" height=\"{whole}\" fill=\"#fff\"/><path fill=\"#000\" d=\"{path}\"/></svg>"
    ))
}

/// Light modules around it (ISO/IEC 18004, 6.3.8).
const QUIET: i32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_the_modules_of_the_code_and_says_nothing_else() {
        let text = "otpauth://totp/gig:ana?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=gig";
        let drawn = picture(text).unwrap();
        let code = QrCode::encode_text(text, QrCodeEcc::Medium).unwrap();
        let size = code.size();
        let dark = (0..size * size).filter(|at| code.get_module(at % size, at / size));
        assert_eq!(drawn.matches("h1v1h-1z").count(), dark.count());
        // The corner of the finder pattern.
        assert!(drawn.contains("d=\"M4 4h1v1h-1z"));
        for word in ["GEZD", "script", "style", "href"] {
            assert!(!drawn.contains(word), "{word}");
        }
        assert!(picture(&"x".repeat(3000)).is_none());
    }
}
