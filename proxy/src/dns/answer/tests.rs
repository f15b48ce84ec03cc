//! Questions read, odd ones refused, answers written.

use proptest::prelude::*;

use super::*;

fn query(name: &str, query_type: RecordType) -> Message {
    let mut message = Message::new(77, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), query_type));
    message
}

fn question(message: &Message) -> Box<Question> {
    match parse(&message.to_vec().unwrap()) {
        Parsed::Question(question) => question,
        other => panic!("{other:?}"),
    }
}

fn error_code(message: &Message) -> ResponseCode {
    match parse(&message.to_vec().unwrap()) {
        Parsed::Refused(refused) => {
            let reply = Message::from_vec(refused.reply()).unwrap();
            reply.metadata.response_code
        }
        other => panic!("{other:?}"),
    }
}

fn replied(question: &Question, answer: &Answer) -> Message {
    Message::from_vec(&question.reply(answer, Transport::Udp)).unwrap()
}

#[test]
fn an_address_repeats_the_question_as_it_was_spelled() {
    let asked = question(&query("ApI.Example.Com.", RecordType::A));
    assert_eq!(asked.text(), "ApI.Example.Com");
    let reply = replied(&asked, &Answer::Address([198, 18, 0, 1].into()));
    assert_eq!(reply.metadata.id, 77);
    assert_eq!(reply.metadata.response_code, ResponseCode::NoError);
    assert_eq!(reply.queries[0].name().to_ascii(), "ApI.Example.Com.");
    assert_eq!(reply.answers.len(), 1);
    assert_eq!(reply.answers[0].ttl, synthetic::TTL);
    assert!(reply.edns.is_none());
}

#[test]
fn a_denial_carries_the_reason_where_the_client_speaks_edns() {
    let mut message = query("evil.example.", RecordType::A);
    message.set_edns(own_edns());
    let reply = replied(
        &question(&message),
        &Answer::Denied(DenyReason::HostNotAllowed),
    );
    assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain);
    let edns = reply.edns.unwrap();
    let (_, option) = edns.options().options.first().unwrap();
    assert_eq!(
        *option,
        EdnsOption::Unknown(15, b"\0\x0fhost_not_allowed".to_vec())
    );
    assert_eq!(reply.authorities[0].record_type(), RecordType::SOA);
}

#[test]
fn an_empty_answer_has_an_authority_and_no_record() {
    let asked = question(&query("a.example.", RecordType::HTTPS));
    let reply = replied(&asked, &Answer::Empty);
    assert_eq!(reply.metadata.response_code, ResponseCode::NoError);
    assert!(reply.answers.is_empty());
    assert_eq!(reply.authorities.len(), 1);
}

#[test]
fn odd_queries_get_the_code_for_them() {
    let mut two = query("a.example.", RecordType::A);
    two.add_query(Query::query(
        Name::from_ascii("b.example.").unwrap(),
        RecordType::A,
    ));
    assert_eq!(error_code(&two), ResponseCode::FormErr);
    let none = Message::new(1, MessageType::Query, OpCode::Query);
    assert_eq!(error_code(&none), ResponseCode::FormErr);
    let mut update = query("a.example.", RecordType::A);
    update.metadata.op_code = OpCode::Notify;
    assert_eq!(error_code(&update), ResponseCode::NotImp);
    let mut version = query("a.example.", RecordType::A);
    let mut edns = own_edns();
    edns.set_version(1);
    version.set_edns(edns);
    // 16 is BADVERS here and BADSIG in a signed message.
    assert_eq!(
        u16::from(error_code(&version)),
        u16::from(ResponseCode::BADVERS)
    );
}

#[test]
fn responses_and_fragments_of_headers_get_no_answer() {
    let mut response = query("a.example.", RecordType::A);
    response.metadata.message_type = MessageType::Response;
    assert!(matches!(
        parse(&response.to_vec().unwrap()),
        Parsed::Nothing
    ));
    assert!(matches!(parse(&[0; 11]), Parsed::Nothing));
    assert!(matches!(parse(b""), Parsed::Nothing));
    let cut = &query("a.example.", RecordType::A).to_vec().unwrap()[..15];
    let Parsed::Refused(refused) = parse(cut) else {
        panic!("it has a header");
    };
    assert_eq!(refused.reason, DenyReason::MalformedRequest);
    assert_eq!((&*refused.name, &*refused.type_word), ("", ""));
}

#[test]
fn kinds_that_are_never_answered_are_told_apart() {
    assert!(question(&query("a.example.", RecordType::TXT)).is_plain());
    assert!(!question(&query("a.example.", RecordType::ANY)).is_plain());
    assert!(!question(&query("a.example.", RecordType::AXFR)).is_plain());
    let mut chaos = query("version.bind.", RecordType::TXT);
    chaos.queries[0].set_query_class(DNSClass::CH);
    let chaos = question(&chaos);
    assert!(!chaos.is_plain());
    assert_eq!(chaos.type_word(), "CH TXT");
    let private = question(&query("a.example.", RecordType::Unknown(65280)));
    assert_eq!(private.type_word(), "TYPE65280");
    let mut other = query("a.example.", RecordType::A);
    other.queries[0].set_query_class(DNSClass::Unknown(7));
    assert_eq!(question(&other).type_word(), "CLASS7 A");
}

#[test]
fn reverse_look_ups_are_read() {
    let of = |name| question(&query(name, RecordType::PTR)).reverse();
    assert_eq!(of("1.2.18.198.in-addr.arpa."), Some([198, 18, 2, 1].into()));
    assert_eq!(of("2.18.198.in-addr.arpa."), None);
    assert_eq!(of("x.2.18.198.in-addr.arpa."), None);
    assert_eq!(
        question(&query("1.2.18.198.in-addr.arpa.", RecordType::A)).reverse(),
        None
    );
}

#[test]
fn the_longest_name_still_fits_a_plain_datagram() {
    let label = "a".repeat(63);
    let name = format!("{label}.{label}.{label}.{}.", "b".repeat(61));
    let asked = question(&query(&name, RecordType::A));
    let bytes = asked.reply(&Answer::Denied(DenyReason::HostNotAllowed), Transport::Udp);
    assert!(bytes.len() <= 512);
    assert!(!Message::from_vec(&bytes).unwrap().metadata.truncation);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn arbitrary_bytes_never_panic_and_every_answer_parses(
        bytes in prop::collection::vec(any::<u8>(), 0..300)
    ) {
        check(&bytes);
    }

    #[test]
    fn mangled_queries_never_panic_and_every_answer_parses(
        at in 0_usize..200, with in any::<u8>(), at2 in 0_usize..200, with2 in any::<u8>()
    ) {
        let mut message = query("some.mangled.example.", RecordType::A);
        message.set_edns(own_edns());
        let mut bytes = message.to_vec().unwrap();
        let length = bytes.len();
        bytes[at % length] = with;
        bytes[at2 % length] = with2;
        check(&bytes);
    }
}

fn check(bytes: &[u8]) {
    match parse(bytes) {
        Parsed::Nothing => {}
        Parsed::Refused(refused) => {
            Message::from_vec(refused.reply()).unwrap();
        }
        Parsed::Question(question) => {
            let _name = Fqdn::parse(&question.text());
            let _reverse = question.reverse();
            let reply = question.reply(&Answer::Denied(DenyReason::MalformedName), Transport::Udp);
            let reply = Message::from_vec(&reply).unwrap();
            assert_eq!(reply.metadata.id.to_be_bytes(), bytes[..2]);
        }
    }
}
