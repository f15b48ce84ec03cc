//! Requests whose answer holds credentials that work: AWS STS and its like.
//!
//! What they answer is unknown to the vault, so that nothing would take it out of the answer, and it works
//! outside of gig until it ends. Signed for such a request is none, unless the key's definition says
//! `hands_out: true`. What an action is called is read wherever AWS reads it; of STS, which does little else,
//! only what is known to hand out nothing is signed for.

use std::borrow::Cow;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use memchr::memmem;
use percent_encoding::percent_decode;

use super::request::Signed;
use crate::credential::{letters::word, treat::Signable};

/// Why a request is not signed for, where its answer would hold credentials.
pub(super) fn handing_out(signed: &Signed, request: &Signable<'_>) -> Option<&'static str> {
    let service = signed.service.to_ascii_lowercase();
    let path = request.target.path();
    if service.starts_with("s3") {
        return gives_session(request).then_some(S3);
    }
    if REST.contains(&&*service) && path.split('/').any(|word| hands_out(word.as_bytes())) {
        return Some(OTHER);
    }
    // By its path: `GetFederationToken` of Amazon Connect.
    if service == "sso-oauth" || service == "connect" && path.starts_with("/user/federate") {
        return Some(OTHER);
    }
    if gives_key(&service, request) {
        return Some(OTHER);
    }
    let mut actions = targets(request.headers);
    actions.extend(named(request.target.query().unwrap_or_default().as_bytes()));
    if !FORMS.contains(&&*service) {
        actions.extend(operation(path));
        // Of others' sessions (Athena's) nothing follows.
        let opens = |action: &[u8]| service == "ssm" && SESSIONS.contains(&&*word(action));
        let mut actions = actions.iter();
        let any = actions.any(|action| hands_out(action) || opens(action));
        return any.then_some(OTHER);
    }
    let Some(body) = request.body else {
        return Some(UNTOLD);
    };
    let asked = named(body);
    // What cannot be read could ask for anything, whatever the query says.
    if !body.is_empty() && (asked.is_empty() || !is_form(request.headers)) {
        return Some(UNTOLD);
    }
    actions.extend(asked);
    // RPC by path, or a body that is no form: what is asked for stands elsewhere.
    if actions.is_empty() || path != "/" {
        return Some(UNTOLD);
    }
    let harmless = |action: &Vec<u8>| {
        let known = HARMLESS.iter().any(|h| action.eq_ignore_ascii_case(h));
        known || (service != "sts" && !hands_out(action))
    };
    (!actions.iter().all(harmless)).then_some(match &*service {
        "sts" => STS,
        _ => OTHER,
    })
}

/// Whether the body has to be seen to know what is asked for.
pub(super) fn reads_body(signed: &Signed) -> bool {
    FORMS.contains(&&*signed.service.to_ascii_lowercase())
}

/// S3 Express `CreateSession` and S3 Access Grants `GetDataAccess`.
fn gives_session(request: &Signable<'_>) -> bool {
    let query = request.target.query().unwrap_or_default();
    let mut names = query.split('&').map(|member| {
        let name = member.split('=').next().unwrap_or_default();
        decoded(name.as_bytes())
    });
    names.any(|name| name.eq_ignore_ascii_case(b"session"))
        || decoded(request.target.path().as_bytes())
            .to_ascii_lowercase()
            .ends_with(b"/accessgrantsinstance/dataaccess")
}

/// What is asked for by paths alone: keys of API Gateway, AppSync, Managed Grafana, IoT and Location, sessions of
/// Airflow and QuickSight, tokens of IVS and Chime, relays of Kinesis Video, roles of pods, farms and workloads.
fn gives_key(service: &str, request: &Signable<'_>) -> bool {
    let path = decoded(request.target.path().as_bytes()).to_ascii_lowercase();
    let any = |such: &dyn Fn(&[u8]) -> bool| path.split(|octet| *octet == b'/').any(such);
    let has = |word: &[u8]| any(&|known| known == word);
    let query = decoded(request.target.query().unwrap_or_default().as_bytes()).to_ascii_lowercase();
    let makes = request.method == Method::POST;
    match service {
        "apigateway" => {
            let shown = memmem::find(&query, b"includevalue").is_some();
            has(b"apikeys") && (makes || shown) || has(b"usageplans") && has(b"keys")
        }
        // A key's id is the key.
        "appsync" => has(b"apikeys"),
        "grafana" => makes && (has(b"apikeys") || has(b"tokens")),
        "airflow" => has(b"clitoken") || has(b"webtoken"),
        "iot" => has(b"keys-and-certificate") || has(b"provisioning-claim"),
        "kinesisvideo" => has(b"get-ice-server-config"),
        "chime" => makes && any(&|word| word.starts_with(b"attendees")),
        "quicksight" => any(&|word| word.starts_with(b"embed-url") || word == b"session-embed-url"),
        "eks-auth" => any(&|word| word.starts_with(b"assume-role")),
        "datazone" | "emr-containers" => has(b"credentials"),
        // `user-roles`, `read-roles`, `queue-roles` and `fleet-roles`.
        "deadline" => any(&|word| word.ends_with(b"-roles")),
        "bedrock-agentcore" => has(b"identities"),
        // What is asked about is told with its key.
        "geo" => has(b"keys"),
        "ivs" | "ivschat" => any(&|word| word.ends_with(b"token")) || has(b"createstage"),
        _ => false,
    }
}

/// The actions that `X-Amz-Target` may name: what follows a dot, and each other word of it.
fn targets(headers: &HeaderMap) -> Vec<Vec<u8>> {
    let lines = headers.get_all(&TARGET).iter();
    let words = |line: &HeaderValue| -> Vec<Vec<u8>> {
        let words = line
            .as_bytes()
            .split(|octet| !octet.is_ascii_alphanumeric());
        let words = words.filter(|word| !word.is_empty());
        words.map(<[u8]>::to_vec).collect()
    };
    lines.flat_map(words).collect()
}

/// The action that a path names (Smithy RPC v2: `/service/NAME/operation/ACTION`).
fn operation(path: &str) -> Option<Vec<u8>> {
    let (_, action) = path.rsplit_once("/operation/")?;
    let action = action.split('/').next().unwrap_or_default();
    Some(decoded(action.as_bytes()).into_owned())
}

/// Whether the body is a form, as it is.
fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let mut parts = kind.unwrap_or_default().split(|octet| *octet == b';');
    let media = parts.next().unwrap_or_default().trim_ascii();
    let plain = |part: &[u8]| part.trim_ascii().eq_ignore_ascii_case(b"charset=utf-8");
    media.eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
        && parts.all(plain)
        && !headers.contains_key(CONTENT_ENCODING)
}

/// The values of `Action` in a query or a form.
fn named(form: &[u8]) -> Vec<Vec<u8>> {
    let members = form.split(|octet| *octet == b'&');
    let action = |member: &[u8]| {
        let mut halves = member.splitn(2, |octet| *octet == b'=');
        let (name, value) = (halves.next()?, halves.next()?);
        let is_action = decoded(name).trim_ascii().eq_ignore_ascii_case(b"action");
        is_action.then(|| decoded(value).trim_ascii().to_vec())
    };
    members.filter_map(action).collect()
}

fn decoded(octets: &[u8]) -> Cow<'_, [u8]> {
    percent_decode(octets).into()
}

/// Whether an action is called as those are that answer with credentials.
fn hands_out(action: &[u8]) -> bool {
    let word = word(action);
    let holds = |part: &str| memmem::find(&word, part.as_bytes()).is_some();
    let asks = ["get", "create", "reset", "request", "generate"];
    let asks = asks.iter().any(|verb| word.starts_with(verb.as_bytes()));
    let credentials = holds("credential") && !holds("credentialreport") && asks;
    credentials || word.starts_with(b"assume") || TOKENS.iter().any(|part| holds(part))
}

const STS: &str = "only GetCallerIdentity and its like are asked of STS: what else it answers are keys \
                   that work, which the program would hold; `hands_out: true` in its definition allows it";
const S3: &str = "the answer would be keys of a session that work, which the program would hold; \
                  `hands_out: true` in its definition allows it";
const OTHER: &str = "the answer would be credentials that work, which the program would hold; \
                     `hands_out: true` in its definition allows it";
const UNTOLD: &str = "it does not say as a form which action it asks for, and the answer may be credentials \
                      that work; `hands_out: true` in its definition allows it";

const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
/// Services that are asked by a form and can answer with credentials.
const FORMS: [&str; 4] = ["sts", "iam", "redshift", "ec2"];
/// Services that are asked by paths and can answer with credentials.
const REST: [&str; 2] = ["codeartifact", "lakeformation"];
/// Of STS; what follows from its answers is nothing.
const HARMLESS: [&[u8]; 3] = [
    b"GetCallerIdentity",
    b"DecodeAuthorizationMessage",
    b"GetAccessKeyInfo",
];
/// Of Systems Manager, whose answer opens a shell.
const SESSIONS: [&[u8]; 2] = [b"startsession", b"resumesession"];
/// In the names of actions, in lower case.
const TOKENS: [&str; 32] = [
    "accesstoken",
    "createactivation",
    "createattendee",
    "createuserpoolclient",
    "describeuserpoolclient",
    "iceserverconfig",
    "initiateauth",
    "presignedurl",
    "registrylogin",
    "respondtoauthchallenge",
    "streamingurl",
    "updateuserpoolclient",
    "authorizationtoken",
    "authtoken",
    "createapikey",
    "createbucketaccesskey",
    "computeaccess",
    "createaccesskey",
    "createkeypair",
    "createpresigned",
    "createvpnconnection",
    "defaultkeypair",
    "describevpnconnections",
    "executecommand",
    "getinstanceaccess",
    "masteruserpassword",
    "federationtoken",
    "openidtoken",
    "opentunnel",
    "sessiontoken",
    "webidentitytoken",
    "delegatedaccesstoken",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_told_by_their_names() {
        for action in [
            "GetAuthorizationToken",
            "authorization-token",
            "GetCredentialsForIdentity",
            "GetTemporaryGlueTableCredentials",
            "GetClusterCredentialsWithIAM",
            "CreateServiceSpecificCredential",
            "CreateAccessKey",
            "GetOpenIdTokenForDeveloperIdentity",
            "GetSessionToken",
            "AssumeDecoratedRoleWithSAML",
            "CreateBucketAccessKey",
            "GetIdentityCenterAuthToken",
            "GetAccessToken",
            "GetComputeAccess",
            "CreateApiKey",
            "CreateKeyPair",
            "CreatePresignedDomainUrl",
            "CreateVpnConnection",
            "DownloadDefaultKeyPair",
            "ExecuteCommand",
            "GetInstanceAccessDetails",
            "GetRelationalDatabaseMasterUserPassword",
            "AdminInitiateAuth",
            "AdminRespondToAuthChallenge",
            "DescribeUserPoolClient",
            "CreateActivation",
            "CreateContainerServiceRegistryLogin",
            "CreateStreamingURL",
            "GetPersistentAppUIPresignedURL",
        ] {
            assert!(hands_out(action.as_bytes()), "{action}");
        }
        for action in [
            "GetCredentialReport",
            "UpdateAssumeRolePolicy",
            "DeleteBucketAccessKey",
            "ListServiceSpecificCredentials",
            "DeleteAccessKey",
            "ListAccessKeys",
            "BatchGetImage",
            "DescribeKeyPairs",
            "ListCommands",
            "TerminateSession",
            "GetItem",
            "DeleteUserPoolClient",
            "DescribeActivations",
            "ListAttendees",
        ] {
            assert!(!hands_out(action.as_bytes()), "{action}");
        }
    }

    #[test]
    fn an_action_is_read_however_it_is_written() {
        let all = named(b"Version=1&%41ction=Assume%52ole&x&action=+B&Action");
        assert_eq!(all, [b"AssumeRole".to_vec(), b"+B".to_vec()]);
    }
}
