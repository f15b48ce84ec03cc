//! Bytes arrive whole and in order, half-closes pass, limits hold.

use gig_policy::{Policy, SandboxId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;

async fn splice<S>(front: Bytes, down: S, up: S, limits: &SpliceLimits) -> Spliced
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    splice_until(front, (down, up), limits, std::future::pending()).await
}

fn limits() -> SpliceLimits {
    let subject = Subject::new(
        SandboxId::new(uuid::Uuid::nil()),
        [10, 200, 0, 2].into(),
        [10, 200, 0, 1].into(),
        Policy::deny_all("none"),
    );
    SpliceLimits {
        idle: Duration::from_secs(60),
        subject,
    }
}

fn ends() -> ((DuplexStream, DuplexStream), (DuplexStream, DuplexStream)) {
    (duplex(1000), duplex(700))
}

#[tokio::test]
async fn bytes_pass_both_ways_in_order_and_are_counted() {
    let ((mut program, down), (up, mut origin)) = ends();
    let limits = limits();
    let sent: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
    let expected = [b"front", &sent[..]].concat();
    let program_side = async {
        program.write_all(&sent).await.unwrap();
        program.shutdown().await.unwrap();
        let mut answer = Vec::new();
        program.read_to_end(&mut answer).await.unwrap();
        answer
    };
    let origin_side = async {
        let mut got = Vec::new();
        origin.read_to_end(&mut got).await.unwrap();
        // Half-closed by the program, the origin still answers.
        origin.write_all(b"answer").await.unwrap();
        origin.shutdown().await.unwrap();
        got
    };
    let splicing = splice(Bytes::from_static(b"front"), down, up, &limits);
    let (spliced, answer, got) = tokio::join!(splicing, program_side, origin_side);
    assert_eq!(answer, b"answer");
    assert_eq!(got, expected);
    assert_eq!(
        spliced,
        Spliced {
            out: 300_005,
            back: 6,
            end: SpliceEnd::Finished
        }
    );
}

#[tokio::test(start_paused = true)]
async fn silence_ends_it_and_traffic_keeps_it() {
    let ((mut program, down), (up, _origin)) = ends();
    let limits = limits();
    let started = Instant::now();
    let talk = async {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(50)).await;
            program.write_all(b"x").await.unwrap();
        }
    };
    let (spliced, ()) = tokio::join!(splice(Bytes::new(), down, up, &limits), talk);
    assert_eq!(spliced.end, SpliceEnd::Idle);
    assert_eq!(started.elapsed().as_secs(), 210);
}

#[tokio::test]
async fn a_broken_side_is_named() {
    let ((program, down), (up, origin)) = ends();
    let limits = limits();
    drop(origin);
    let mut program = program;
    let write = async {
        program.write_all(b"nobody hears").await.unwrap();
        program
    };
    let (spliced, _program) = tokio::join!(splice(Bytes::new(), down, up, &limits), write);
    assert_eq!(spliced.end, SpliceEnd::UpstreamBroke);
}

#[tokio::test]
async fn a_cut_stops_it_with_its_reason_and_what_had_passed() {
    let ((mut program, down), (up, mut origin)) = ends();
    let limits = limits();
    let (cut, when_cut) = tokio::sync::oneshot::channel();
    let talk = async {
        program.write_all(b"12345").await.unwrap();
        origin.read_exact(&mut [0; 5]).await.unwrap();
        cut.send(DenyReason::Revoked).unwrap();
        // Closed at once, though both sides are still there.
        assert_eq!(program.read(&mut [0; 1]).await.unwrap(), 0);
        assert_eq!(origin.read(&mut [0; 1]).await.unwrap(), 0);
    };
    let until = async { when_cut.await.unwrap() };
    let splicing = splice_until(Bytes::new(), (down, up), &limits, until);
    let (spliced, ()) = tokio::join!(splicing, talk);
    let end = SpliceEnd::Refused(DenyReason::Revoked);
    assert_eq!(
        spliced,
        Spliced {
            out: 5,
            back: 0,
            end
        }
    );
}

#[tokio::test]
async fn the_upload_allowance_ends_it_before_the_octets_leave() {
    let ((mut program, down), (up, mut origin)) = ends();
    let limits = limits();
    let text = "version: 1\nname: p\negress: []\nlimits: {upload_per_hour: 1000}\n";
    limits
        .subject
        .set_policy(Policy::compile(text, "p.yaml").unwrap());
    let send = async {
        program.write_all(&[1; 900]).await.unwrap();
        let mut got = vec![0; 900];
        origin.read_exact(&mut got).await.unwrap();
        program.write_all(&[1; 101]).await.unwrap();
        assert_eq!(origin.read(&mut got).await.unwrap(), 0);
    };
    let (spliced, ()) = tokio::join!(splice(Bytes::new(), down, up, &limits), send);
    assert_eq!(spliced.end, SpliceEnd::Refused(DenyReason::UploadLimit));
    assert_eq!(spliced.out, 900);
}

#[tokio::test]
async fn what_a_program_wrote_before_it_ended_goes_to_an_origin_that_nobody_hears() {
    for told_before in [false, true] {
        let ((mut program, down), (up, mut origin)) = ends();
        let limits = limits();
        let subject = Arc::clone(&limits.subject);
        let (written, read) = tokio::sync::oneshot::channel();
        let program_side = async {
            if told_before {
                subject.end();
            }
            program.write_all(&[7; 900]).await.unwrap();
            program.shutdown().await.unwrap();
            subject.end();
            written.send(()).unwrap();
        };
        let origin_side = async {
            read.await.unwrap();
            // More than anything holds: whoever waits for somebody to read it waits for ever.
            origin.write_all(&[8; 9000]).await.unwrap();
            let mut got = Vec::new();
            origin.read_to_end(&mut got).await.unwrap();
            got
        };
        let splicing = splice(Bytes::new(), down, up, &limits);
        let (spliced, (), got) = tokio::join!(splicing, program_side, origin_side);
        assert_eq!(got, [7; 900]);
        assert_eq!((spliced.out, spliced.end), (900, SpliceEnd::Finished));
    }
}
