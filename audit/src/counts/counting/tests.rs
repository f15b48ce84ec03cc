//! Which records are counted next.

use super::*;

fn mark(first: u64, next: u64) -> Counted {
    Counted { first, next }
}

fn next(chains: &[(u32, u64)], marks: &[(u32, Counted)], own: u32) -> Option<(u32, u64, u64)> {
    let end = |(chain, last): &(u32, u64)| End {
        chain: *chain,
        last: *last,
        is_quiet: false,
    };
    let chains: Vec<End> = chains.iter().map(end).collect();
    let marks = marks.iter().copied().collect();
    let step = Step::next(&chains, &marks, own)?;
    let (first, below) = step.places();
    Some((step.chain, first, below))
}

#[test]
fn new_records_go_first_and_old_ones_follow_to_the_beginning() {
    assert_eq!(next(&[(1, 1022)], &[], 1), None, "not enough yet");
    assert_eq!(next(&[(1, 1023)], &[], 1), Some((1, 0, 1024)));
    assert_eq!(next(&[(1, 10_000)], &[], 1), Some((1, 8192, 9216)));
    let known = mark(8192, 9216);
    assert_eq!(
        next(&[(1, 10_238)], &[(1, known)], 1),
        Some((1, 7168, 8192))
    );
    assert_eq!(
        next(&[(1, 10_239)], &[(1, known)], 1),
        Some((1, 9216, 10_240))
    );
    assert_eq!(
        next(&[(1, 2000)], &[(1, mark(500, 1500))], 1),
        Some((1, 0, 500))
    );
    assert_eq!(next(&[(1, 2000)], &[(1, mark(0, 1500))], 1), None);
}

#[test]
fn a_chain_that_nobody_writes_to_is_counted_to_its_end() {
    let next = |last, mark: Option<Counted>| {
        let gone = End {
            chain: 2,
            last,
            is_quiet: true,
        };
        let marks = mark.map(|mark| (2, mark)).into_iter().collect();
        Step::next(&[gone], &marks, 1).map(|step| step.places())
    };
    assert_eq!(next(700, None), Some((0, 701)));
    assert_eq!(next(1500, None), Some((477, 1501)));
    assert_eq!(next(0, None), None, "nothing was written");
    assert_eq!(next(1500, Some(mark(0, 1024))), Some((1024, 1501)));
    assert_eq!(next(9000, Some(mark(0, 1024))), Some((1024, 2048)));
    assert_eq!(next(1500, Some(mark(0, 1501))), None, "all of it is");
    assert_eq!(next(1500, Some(mark(477, 1501))), Some((0, 477)));
}

#[test]
fn another_nodes_records_are_left_to_it_unless_it_is_gone() {
    let whole = (1, mark(0, 1024));
    let two = |end| next(&[(1, 1500), (2, end)], &[whole, (2, mark(0, 1024))], 1);
    assert_eq!(two(5000), None);
    assert_eq!(two(20_000), Some((2, 1024, 2048)));
    // Nobody counted it: it is of before there were counts, or of who does not.
    assert_eq!(
        next(&[(1, 1500), (2, 1500)], &[whole], 1),
        Some((2, 0, 1024))
    );
}
