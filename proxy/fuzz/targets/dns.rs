//! A DNS message: never answered with more than was asked, and always with something readable.

use std::net::Ipv4Addr;

use gig_policy::DenyReason;
use gig_proxy::dns::answer::{Answer, Parsed, Transport, parse};
use hickory_proto::op::{Message, MessageType};

/// One message off the wire.
pub fn run(data: &[u8]) {
    match parse(data) {
        Parsed::Nothing => {}
        Parsed::Refused(refused) => check(data, refused.reply()),
        Parsed::Question(question) => {
            let answers = [
                Answer::Address(Ipv4Addr::new(198, 18, 0, 1)),
                Answer::Empty,
                Answer::Denied(DenyReason::HostNotAllowed),
                Answer::Refused,
                Answer::Failed(DenyReason::Internal),
            ];
            for answer in &answers {
                let datagram = question.reply(answer, Transport::Udp);
                assert!(datagram.len() <= 1232, "{} octets", datagram.len());
                check(data, &datagram);
                check(data, &question.reply(answer, Transport::Tcp));
            }
            let _shown = (
                question.text(),
                question.type_word(),
                question.is_plain(),
                question.reverse(),
            );
        }
    }
}

/// It is an answer, and to this question.
fn check(question: &[u8], reply: &[u8]) {
    let message = Message::from_vec(reply).expect("an answer that can be read");
    assert_eq!(message.metadata.message_type, MessageType::Response);
    assert_eq!(question.get(..2), reply.get(..2), "the id");
}
