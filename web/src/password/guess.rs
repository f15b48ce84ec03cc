//! Passwords that are guessed first, though they are long (NIST SP 800-63B, 5.1.1.2): the name they belong to, a few
//! characters again and again, rows of neighbours, and what lists of stolen passwords begin with. No rule says of what
//! kinds of characters one has to be: that makes none harder to guess.

use super::PasswordRefused;

/// Refuses what a stranger tries first.
pub(super) fn refuse(name: &str, password: &str) -> Result<(), PasswordRefused> {
    let plain: Vec<char> = password.chars().flat_map(char::to_lowercase).collect();
    if is_name(name, &plain) {
        return Err(PasswordRefused::Name);
    }
    let letters: String = plain
        .iter()
        .copied()
        .filter(|one| one.is_alphanumeric())
        .collect();
    let letters: Vec<char> = letters.chars().collect();
    let rows = [&plain, &letters]
        .into_iter()
        .any(|typed| repeats(typed) || is_row(typed) || is_two_rows(typed));
    if rows {
        return Err(PasswordRefused::Pattern);
    }
    if is_common(&letters) {
        return Err(PasswordRefused::Common);
    }
    Ok(())
}

/// The name again and again, or with no more than a few characters beside it.
fn is_name(name: &str, password: &[char]) -> bool {
    let name: String = name.to_lowercase();
    let typed: String = password.iter().collect();
    // A name of two letters is in many words.
    if name.chars().count() < SHORTEST_NAME {
        return typed == name;
    }
    let rest = typed.replace(&name, "");
    rest.len() < typed.len() && rest.chars().count() < BESIDE
}

/// No more than a few characters, again and again.
fn repeats(password: &[char]) -> bool {
    (1..=PERIOD).any(|period| {
        let again = password.iter().skip(period);
        password.len() > 2 * period && again.zip(password).all(|(one, before)| one == before)
    })
}

/// All of it in rows of neighbours, up or down: `abcdefghijkl`, `123456654321`, `qwertyuiopas`.
fn is_row(password: &[char]) -> bool {
    password.len() > MOST_JUMPS * 4 && apart(password) <= MOST_JUMPS
}

/// How often the next character is no neighbour of the last.
fn apart(typed: &[char]) -> usize {
    let next_to = |pair: &[char]| match pair {
        [a, b] => ROWS.iter().any(|row| {
            let at = |one: &char| row.find(*one);
            matches!((at(a), at(b)), (Some(a), Some(b)) if a.abs_diff(b) <= 1)
        }),
        _ => false,
    };
    typed.windows(2).filter(|pair| !next_to(pair)).count()
}

/// Two rows, a character of each in turn: `1q2w3e4r5t6y`.
fn is_two_rows(password: &[char]) -> bool {
    let (one, other): (Vec<_>, Vec<_>) = password
        .chunks(2)
        .map(|pair| (pair.first(), pair.get(1)))
        .unzip();
    let [one, other]: [Vec<char>; 2] =
        [one, other].map(|row| row.into_iter().flatten().copied().collect());
    let jumps = apart(&one) + apart(&other);
    password.len() > MOST_JUMPS * 4 && jumps <= MOST_JUMPS
}

/// What is tried first, and digits or a few characters beside it.
fn is_common(letters: &[char]) -> bool {
    // As people write the letters to please a rule.
    let read = letters.iter().map(|one| match one {
        '0' => 'o',
        '1' => 'i',
        '3' => 'e',
        '4' => 'a',
        '5' => 's',
        '7' => 't',
        other => *other,
    });
    let read: String = read.collect();
    let typed: String = letters.iter().collect();
    [typed, read].into_iter().any(|mut rest| {
        let whole = rest.len();
        for word in COMMON {
            rest = rest.replace(word, "");
        }
        let has_one = rest.len() < whole;
        let (digits, others): (Vec<char>, Vec<char>) = rest.chars().partition(char::is_ascii_digit);
        let more = digits.len().saturating_sub(DIGITS);
        has_one && others.len() + more < BESIDE
    })
}

/// Shorter names are not looked for within a password.
const SHORTEST_NAME: usize = 3;
/// So few characters beside a word that is known are tried with it.
const BESIDE: usize = 4;
/// So many digits beside one: a date, `123456`.
const DIGITS: usize = 6;
/// `abcabcabcabc`.
const PERIOD: usize = 3;
/// From one row to another, or back.
const MOST_JUMPS: usize = 2;
/// Neighbours: of the alphabet, of digits, of the rows of a keyboard and of its columns.
const ROWS: [&str; 9] = [
    "abcdefghijklmnopqrstuvwxyz",
    "1234567890",
    "qwertyuiop",
    "qwertzuiop",
    "azertyuiop",
    "asdfghjkl",
    "zxcvbnm",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm",
    "qazwsxedcrfvtgbyhnujm",
];
/// What lists of stolen passwords begin with, where it is of letters; of longer ones these are the parts. The longest
/// first.
const COMMON: [&str; 44] = [
    "administrator",
    "basketball",
    "changeme",
    "correcthorsebatterystaple",
    "iloveyou",
    "letmein",
    "trustnoone",
    "mypassword",
    "passwort",
    "password",
    "passwd",
    "princess",
    "starwars",
    "sunshine",
    "superman",
    "michael",
    "charlie",
    "jessica",
    "jennifer",
    "football",
    "baseball",
    "computer",
    "whatever",
    "welcome",
    "freedom",
    "secret",
    "default",
    "qwertyuiop",
    "qwerty",
    "qwertz",
    "azerty",
    "asdfghjkl",
    "asdfgh",
    "zxcvbnm",
    "dragon",
    "monkey",
    "master",
    "shadow",
    "abc",
    "admin",
    "login",
    "hello",
    "test",
    "root",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_guessed_first_is_refused_and_words_in_a_row_are_not() {
        use PasswordRefused::{Common, Name, Pattern};
        for (password, why) in [
            ("aaaaaaaaaaaa", Pattern),
            ("abababababab", Pattern),
            ("abcabcabcabcab", Pattern),
            ("123456789012", Pattern),
            ("abcdefghijklm", Pattern),
            ("qwertyuiopasdf", Pattern),
            ("zxcvbnmasdfghjkl", Pattern),
            ("1111-1111-1111", Pattern),
            ("1q2w3e4r5t6y", Pattern),
            ("1qaz2wsx3edc", Pattern),
            ("zaq1xsw2cde3", Pattern),
            ("qazwsxedcrfv", Pattern),
            ("margarethe12", Name),
            ("MargaretheMargarethe", Name),
            ("12-margarethe", Name),
            ("password1234", Common),
            ("Passw0rd2024!", Common),
            ("p455w0rdp455w0rd", Common),
            ("letmein123456", Common),
            ("administrator1", Common),
            ("AdminAdmin123", Common),
            ("correct horse battery staple", Common),
        ] {
            assert_eq!(refuse("margarethe", password), Err(why), "{password}");
        }
        for password in [
            "correct horse battery",
            "margarethe walks to the sea",
            "elf und zwölf sind drei",
            "wrong wrong wrong",
            "own password of ana",
            "f4e0b1d59a3c",
            "739182645017",
            "739182645017193test",
            "日本語の長いパスワード文",
        ] {
            assert_eq!(refuse("margarethe", password), Ok(()), "{password}");
        }
    }

    #[test]
    fn a_short_name_is_not_looked_for_in_words() {
        assert_eq!(refuse("an", "an apple an evening"), Ok(()));
        assert_eq!(refuse("ana", "anaanaanaana"), Err(PasswordRefused::Name));
    }
}
