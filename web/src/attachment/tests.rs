//! Octets, ends and reasons, between a client and a program that the test is.

use futures_util::FutureExt as _;
use gig_policy::SandboxId;
use jiff::Timestamp;
use tokio::{
    io::{DuplexStream, duplex},
    sync::{mpsc, oneshot},
    task::JoinSet,
};
use tokio_tungstenite::tungstenite::protocol::Role;

use super::*;
use crate::control::SandboxFacts;

/// The program's ends.
struct Program {
    stdin: DuplexStream,
    stdout: Option<DuplexStream>,
    stderr: Option<mpsc::Sender<Vec<u8>>>,
    ended: Option<oneshot::Sender<Ended>>,
}

type Client = WebSocketStream<DuplexStream>;

fn facts() -> SandboxFacts {
    SandboxFacts {
        id: SandboxId::new(uuid::Uuid::now_v7()),
        server: "one".into(),
        spec: std::sync::Arc::default(),
        profile: "ana".into(),
        attached: true,
        namespace: None,
        address: None,
        policy: "p".into(),
        policy_by: "all servers".into(),
        policy_version: 1,
        started: Timestamp::UNIX_EPOCH,
        ended: None,
        connections: 0,
        layers: Vec::new(),
    }
}

/// A client attached to a program, both as the test likes.
async fn attached(may: fn() -> bool) -> (Client, Program, JoinSet<Over>) {
    let (theirs, ours) = duplex(64 * 1024);
    let (stdin, program_stdin) = duplex(1024);
    let (program_stdout, stdout) = duplex(1024);
    let (program_stderr, stderr) = mpsc::channel(1);
    let (end, ended) = oneshot::channel();
    let mut attached = Attached {
        facts: facts(),
        stdin: Some(Box::new(stdin)),
        stdout: Box::new(stdout),
        stderr,
        ended: async { ended.await.unwrap() }.boxed().shared(),
        hold: Box::new(()),
    };
    let limits = protocol::limits();
    let client = WebSocketStream::from_raw_socket(theirs, Role::Client, Some(limits)).await;
    let server = WebSocketStream::from_raw_socket(ours, Role::Server, Some(limits)).await;
    let mut passing = JoinSet::new();
    passing.spawn(async move {
        let mut joined = Joined::new(server);
        let lapsed = async move {
            while may() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let over = joined.pass(&mut attached, lapsed).await;
        drop(attached);
        joined.end(&over).await;
        over
    });
    let program = Program {
        stdin: program_stdin,
        stdout: Some(program_stdout),
        stderr: Some(program_stderr),
        ended: Some(end),
    };
    (client, program, passing)
}

async fn outcome(mut passing: JoinSet<Over>) -> Over {
    passing.join_next().await.unwrap().unwrap()
}

async fn next(client: &mut Client) -> Message {
    loop {
        match client.next().await.unwrap().unwrap() {
            Message::Ping(_) => {}
            message => return message,
        }
    }
}

fn to_stdin(octets: &[u8]) -> Message {
    let mut message = protocol::message(protocol::STDIN);
    message.extend_from_slice(octets);
    Message::Binary(message.freeze())
}

fn closed(message: &Message) -> (u16, String) {
    let Message::Close(Some(frame)) = message else {
        panic!("no close: {message:?}");
    };
    (frame.code.into(), frame.reason.to_string())
}

#[tokio::test]
async fn streams_pass_and_end_one_by_one_and_the_status_comes_last() {
    let (mut client, mut program, passing) = attached(|| true).await;
    client.send(to_stdin(b"one\0\xff\n")).await.unwrap();
    let mut heard = [0; 6];
    program.stdin.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"one\0\xff\n");
    client.send(to_stdin(b"")).await.unwrap();
    assert_eq!(program.stdin.read(&mut heard).await.unwrap(), 0);

    let stdout = program.stdout.as_mut().unwrap();
    stdout.write_all(b"still here").await.unwrap();
    assert_eq!(
        next(&mut client).await,
        Message::binary(&b"\x01still here"[..])
    );
    let stderr = program.stderr.take().unwrap();
    stderr.send(b"complaint".to_vec()).await.unwrap();
    assert_eq!(
        next(&mut client).await,
        Message::binary(&b"\x02complaint"[..])
    );
    drop(stderr);
    assert_eq!(next(&mut client).await, Message::binary(&b"\x02"[..]));
    drop(program.stdout.take());
    assert_eq!(next(&mut client).await, Message::binary(&b"\x01"[..]));

    let cause = EndCause::Program;
    let ended = Ended {
        status: 7,
        cause,
        starved: false,
    };
    program.ended.take().unwrap().send(ended).unwrap();
    assert_eq!(next(&mut client).await, Message::text("{\"exit\": 7}"));
    let (code, reason) = closed(&next(&mut client).await);
    assert_eq!(
        (code, reason.as_str()),
        (1000, "its program ended, status 7")
    );
    drop(client);
    assert_eq!(outcome(passing).await, Over::Ended(ended));
}

#[tokio::test]
async fn a_program_that_was_killed_for_memory_is_told_as_that() {
    let (mut client, mut program, passing) = attached(|| true).await;
    drop((program.stdout.take(), program.stderr.take()));
    let ended = Ended {
        status: 137,
        cause: EndCause::Program,
        starved: true,
    };
    program.ended.take().unwrap().send(ended).unwrap();
    let closed = loop {
        if let Message::Close(Some(frame)) = next(&mut client).await {
            break (u16::from(frame.code), frame.reason.to_string());
        }
    };
    let words = "its program wanted more memory than its server allows (memory), and was killed, status 137";
    assert_eq!(closed, (protocol::STARVED, words.to_owned()));
    drop(client);
    assert_eq!(outcome(passing).await, Over::Ended(ended));
    // Who had it stopped knows why it is over.
    let stopped = Ended {
        cause: EndCause::Stopped,
        ..ended
    };
    assert_eq!(stopped.words(), EndCause::Stopped.words());
}

#[tokio::test]
async fn a_client_that_reads_nothing_holds_the_program_up() {
    let (mut client, mut program, passing) = attached(|| true).await;
    let mut stdout = program.stdout.take().unwrap();
    let mut written = 0_usize;
    // What fits between them, and not an octet more.
    while let Ok(taken) =
        tokio::time::timeout(Duration::from_millis(200), stdout.write(&[7; 1024])).await
    {
        written += taken.unwrap();
        assert!(written < 1024 * 1024, "it is kept in memory");
    }
    let mut read = 0;
    while read < written {
        let Message::Binary(octets) = next(&mut client).await else {
            panic!("no octets");
        };
        read += octets.len() - 1;
    }
    assert_eq!(read, written);
    drop(client);
    assert_eq!(outcome(passing).await, Over::Gone);
}

#[tokio::test]
async fn what_is_no_message_is_told_and_ends_it() {
    for (message, over, code) in [
        (Message::text("hello"), Over::NotUnderstood, 1002),
        (Message::binary(&b"\x01x"[..]), Over::NotUnderstood, 1002),
        (Message::binary(Bytes::new()), Over::NotUnderstood, 1002),
        (to_stdin(&vec![0; protocol::LONGEST]), Over::TooLong, 1009),
    ] {
        let (mut client, _program, passing) = attached(|| true).await;
        // A long one is refused before all of it was taken.
        let _sent = tokio::time::timeout(Duration::from_secs(1), client.send(message)).await;
        assert_eq!(closed(&next(&mut client).await).0, code);
        drop(client);
        assert_eq!(outcome(passing).await, over);
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_silent_or_may_no_more_is_let_go() {
    // Reads nothing, so answers no question.
    let (client, _program, passing) = attached(|| true).await;
    assert_eq!(outcome(passing).await, Over::Silent);
    drop(client);

    let (mut client, _program, passing) = attached(|| false).await;
    assert_eq!(closed(&next(&mut client).await).0, 4003);
    drop(client);
    assert_eq!(outcome(passing).await, Over::Lapsed);
}

#[tokio::test(start_paused = true)]
async fn who_answers_stays_however_long_nothing_is_said() {
    let (mut client, mut program, passing) = attached(|| true).await;
    let hour = tokio::time::sleep(Duration::from_secs(3600));
    tokio::pin!(hour);
    loop {
        tokio::select! {
            () = &mut hour => break,
            // Each question is answered as it is read.
            message = client.next() => assert!(message.unwrap().unwrap().is_ping()),
        }
    }
    client.send(to_stdin(b"x")).await.unwrap();
    assert_eq!(program.stdin.read_u8().await.unwrap(), b'x');
    drop(client);
    assert_eq!(outcome(passing).await, Over::Gone);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_the_rest_is_let_go_also_when_they_answer() {
    for (cause, least, most) in [
        (EndCause::Program, 30, 31),
        (EndCause::Stopped, 30, 31),
        (EndCause::Shutdown, 1, 2),
    ] {
        let (mut client, mut program, mut passing) = attached(|| true).await;
        let mut stdout = program.stdout.take().unwrap();
        // More than fits between them, and nobody reads it.
        let writing = tokio::time::timeout(Duration::from_secs(1), async {
            while stdout.write_all(&[7; 1024]).await.is_ok() {}
        });
        assert!(writing.await.is_err());
        let ended = Ended {
            status: 0,
            cause,
            starved: false,
        };
        program.ended.take().unwrap().send(ended).unwrap();
        let begun = Instant::now();
        let over = loop {
            tokio::select! {
                over = passing.join_next() => break over.unwrap().unwrap(),
                () = tokio::time::sleep(Duration::from_millis(500)) => {
                    // It is there, and says so.
                    let _sent = client.send(Message::Pong(Bytes::new())).await;
                }
            }
        };
        assert_eq!(over, Over::Unread);
        let took = begun.elapsed().as_secs();
        // And two seconds for the last word.
        assert!((least..=most + 2).contains(&took), "{cause:?}: {took}");
        drop(stdout);
    }
}
