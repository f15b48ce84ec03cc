//! Lists, page by page: every list of the API that is not read from the record ends with a cursor where there is more.
//!
//! A cursor says behind what the next page begins, and not where: what comes or goes meanwhile shifts nothing. What is
//! asked of such a list beside `cursor` and `limit` is refused, and so is a `limit` out of its range: a page that is
//! shorter than was asked for looks like the last one.

use std::fmt::Display;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use utoipa::{IntoParams, ToSchema};

use crate::api_error::Problem;

/// Which page.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paging {
    /// What `next` of the page before said; without it the first.
    #[serde(default, deserialize_with = "given")]
    #[param(min_length = 1)]
    cursor: String,
    /// Most to answer, up to 1000, as if nothing is said.
    #[param(minimum = 1, maximum = 1000, default = 1000)]
    limit: Option<usize>,
}

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Items<T: ToSchema> {
    /// What was asked for.
    pub(crate) items: Vec<T>,
    /// For `cursor`: what comes next; null at the end.
    pub(crate) next: Option<String>,
}

/// A list that is always short enough to come whole.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Whole<T: ToSchema> {
    /// All of it.
    pub(crate) items: Vec<T>,
}

/// Which of a list comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// By name.
    Rising,
    /// The newest.
    Falling,
}

impl Paging {
    /// The page of `all`; no two of them have the same key, and none an empty one.
    ///
    /// # Errors
    /// 400 for what is no cursor, or a `limit` out of its range.
    pub(crate) fn page<T: ToSchema>(
        &self,
        all: Vec<T>,
        order: Order,
        key: impl Fn(&T) -> String,
    ) -> Result<Items<T>, Problem> {
        let behind = self.behind()?;
        let is_behind = |key: &String| match (&behind, order) {
            (None, _) => true,
            (Some(last), Order::Rising) => key > last,
            (Some(last), Order::Falling) => key < last,
        };
        let keyed = all.into_iter().map(|one| (key(&one), one));
        let mut keyed: Vec<(String, T)> = keyed.filter(|(key, _)| is_behind(key)).collect();
        keyed.sort_by(|(one, _), (other, _)| match order {
            Order::Rising => one.cmp(other),
            Order::Falling => other.cmp(one),
        });
        let limit = within(self.limit, (MOST, MOST))?;
        let more = keyed.len() > limit;
        keyed.truncate(limit);
        let last = keyed.last().filter(|_| more);
        let next = last.map(|(key, _)| BASE64_URL_SAFE_NO_PAD.encode(key));
        let items = keyed.into_iter().map(|(_, one)| one).collect();
        Ok(Items { items, next })
    }

    fn behind(&self) -> Result<Option<String>, Problem> {
        let cursor = self.cursor.trim();
        if cursor.is_empty() {
            return Ok(None);
        }
        let octets = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok();
        let key = octets.and_then(|octets| String::from_utf8(octets).ok());
        let wrong = || Problem::invalid(NO_CURSOR);
        key.map(Some).ok_or_else(wrong)
    }
}

/// A cursor as it was sent. An empty one is refused, as what is no cursor is: who goes on with what came of no `next`
/// would read the first page for ever.
///
/// # Errors
/// When it is empty.
pub(crate) fn given<'a, D: Deserializer<'a>>(from: D) -> Result<String, D::Error> {
    let cursor = String::deserialize(from)?;
    match cursor.trim() {
        "" => Err(D::Error::custom(NO_CURSOR)),
        _ => Ok(cursor),
    }
}

/// The same of a list that has numbers for its cursors.
///
/// # Errors
/// When it is none.
pub(crate) fn given_number<'a, D: Deserializer<'a>>(from: D) -> Result<Option<u64>, D::Error> {
    let cursor = String::deserialize(from)?;
    // As far as the document says that numbers go (`int64`).
    let number = cursor.trim().parse::<i64>().ok();
    let number = number.and_then(|number| u64::try_from(number).ok());
    number.map(Some).ok_or_else(|| D::Error::custom(NO_CURSOR))
}

/// How many a page has at most: as asked, or as is `usual`.
///
/// # Errors
/// 400 for none at all and for more than the `most`.
pub(crate) fn within<N: Copy + PartialOrd + Display + From<u8>>(
    asked: Option<N>,
    (usual, most): (N, N),
) -> Result<N, Problem> {
    match asked {
        None => Ok(usual),
        Some(asked) if asked >= N::from(1) && asked <= most => Ok(asked),
        Some(asked) => Err(Problem::invalid(format!(
            "limit {asked}: a page has 1 to {most}"
        ))),
    }
}

/// The same of a list that has numbers for its cursors.
///
/// # Errors
/// As [`within`].
pub(crate) fn counted(asked: Option<u32>) -> Result<u32, Problem> {
    within(asked, (50, 200))
}

const NO_CURSOR: &str = "a cursor is what `next` said: leave it out for the first page";
/// Of one page.
const MOST: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn page(names: &[&str], order: Order, cursor: &str) -> (Vec<String>, Option<String>) {
        let paging = Paging {
            cursor: cursor.to_owned(),
            limit: Some(2),
        };
        let all = names.iter().map(|name| (*name).to_owned()).collect();
        let page = paging.page(all, order, String::clone).unwrap();
        (page.items, page.next)
    }

    #[test]
    fn what_comes_or_goes_meanwhile_shifts_no_page() {
        let names = ["d", "a", "c", "b"];
        let (first, next) = page(&names, Order::Rising, "");
        assert_eq!(first, ["a", "b"]);
        // The last of that page goes, and one comes before it.
        let (second, end) = page(&["d", "a", "aa", "c"], Order::Rising, &next.unwrap());
        assert_eq!((second, end), (vec!["c".to_owned(), "d".to_owned()], None));
        let (newest, next) = page(&names, Order::Falling, "");
        assert_eq!(newest, ["d", "c"]);
        assert_eq!(page(&names, Order::Falling, &next.unwrap()).0, ["b", "a"]);
        assert_eq!(page(&names[..2], Order::Rising, "").1, None);
        for wrong in ["%", "_w", "a b"] {
            let paging = Paging {
                cursor: wrong.to_owned(),
                limit: None,
            };
            assert!(
                paging
                    .page(vec![String::new()], Order::Rising, String::clone)
                    .is_err()
            );
        }
    }
}
