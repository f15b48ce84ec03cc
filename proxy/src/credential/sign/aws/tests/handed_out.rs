//! Requests whose answers would be credentials.

use super::*;

const DATE: &str = "20130524T000000Z";

/// What becomes of a request to a service, with a definition that lets credentials out or not.
fn treated(hands_out: bool, service: &str, mut asked: Case) -> Result<(), Untreatable> {
    asked.headers.insert("x-amz-date", DATE.parse().unwrap());
    let scope = format!("20130524/us-east-1/{service}");
    let mut asked = asked.signed_with(SENTINEL, V4, &scope, "host;x-amz-date");
    let mut treat = aws(SENTINEL, KEYS, DATE);
    treat.scope = Arc::new(AwsScope {
        hands_out,
        ..AwsScope::default()
    });
    // What has to be seen is asked for.
    if treat.wants_body(&asked.headers, &asked.target).is_none() {
        asked.body = None;
    }
    treat.treat(asked.signable()).map(drop)
}

fn of(method: &str, target: &str, headers: &[(&'static str, &str)], body: &str) -> Case {
    let mut case = case(method, "service.us-east-1.amazonaws.com", target, headers);
    case.body = Some(body.into());
    let kind = case.headers.entry("content-type");
    kind.or_insert_with(|| HeaderValue::from_static(FORM));
    case
}

/// As the SDKs write it.
const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

const TARGET: &str = "x-amz-target";
/// The program says what the body hashes to: it need not be read for the signature.
const HASHED: &str = "x-amz-content-sha256";

/// Of STS, in every way in which an action is written.
fn of_sts() -> Vec<(&'static str, Case)> {
    let form = |text: &str| of("POST", "/", &[], text);
    let beside = |kind: (&'static str, &str), body: &str| {
        of("POST", "/?Action=GetCallerIdentity", &[kind], body)
    };
    vec![
        // What is in a body that cannot be read as a form is not excused by the query.
        (
            "sts",
            beside(("content-encoding", "gzip"), "Action=GetCallerIdentity"),
        ),
        (
            "sts",
            beside(("content-type", "multipart/form-data; boundary=b"), "--b"),
        ),
        (
            "sts",
            beside(
                (
                    "content-type",
                    "application/x-www-form-urlencoded; charset=utf-16",
                ),
                "A\0c\0t\0i\0o\0n\0",
            ),
        ),
        ("sts", beside(("content-type", FORM), "Version=2011-06-15")),
        ("sts", form("Action=GetSessionToken&Version=2011-06-15")),
        (
            "sts",
            form("Version=2011-06-15&%41ction=Assume%52ole&RoleArn=x"),
        ),
        ("sts", form("Action=GetCallerIdentity&Action=AssumeRole")),
        ("sts", form("Action=SomethingNew")),
        ("sts", form("{}")),
        ("STS", form("Action=GetSessionToken")),
        (
            "sts",
            of("GET", "/?Action=GetFederationToken&Name=a", &[], ""),
        ),
        (
            "sts",
            of(
                "POST",
                "/?Action=GetCallerIdentity",
                &[],
                "Action=AssumeRole",
            ),
        ),
        (
            "sts",
            of("POST", "/", &[(HASHED, UNSIGNED)], "Action=GetSessionToken"),
        ),
        (
            "sts",
            of(
                "POST",
                "/?Action=GetCallerIdentity",
                &[(TARGET, "STS.AssumeRole")],
                "",
            ),
        ),
        (
            "sts",
            of(
                "POST",
                "/service/STS/operation/AssumeRole?Action=GetCallerIdentity",
                &[],
                "",
            ),
        ),
    ]
}

/// By the field that names an action.
fn aimed(at: &str) -> Case {
    of("POST", "/", &[(TARGET, at)], "{}")
}

/// Of other services.
fn of_others() -> Vec<(&'static str, Case)> {
    let form = |text: &str| of("POST", "/", &[], text);
    vec![
        ("iam", form("Action=CreateAccessKey&UserName=u")),
        ("redshift", form("Action=GetClusterCredentials")),
        (
            "s3express",
            of("GET", "/?session", &[(HASHED, NOTHING)], ""),
        ),
        (
            "s3express",
            of("GET", "/?a=b&%73ession=", &[(HASHED, NOTHING)], ""),
        ),
        (
            "s3",
            of(
                "GET",
                "/v20180820/accessgrantsinstance/dataaccess?target=x",
                &[(HASHED, NOTHING)],
                "",
            ),
        ),
        (
            "ecr",
            of(
                "POST",
                "/",
                &[(
                    TARGET,
                    "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken",
                )],
                "{}",
            ),
        ),
        (
            "cognito-identity",
            of(
                "POST",
                "/",
                &[(
                    TARGET,
                    "AWSCognitoIdentityService.GetCredentialsForIdentity",
                )],
                "{}",
            ),
        ),
        // By a path, by a query, and by a target that is written otherwise.
        (
            "ecr",
            of(
                "POST",
                "/service/AmazonEC2ContainerRegistry_V20150921/operation/GetAuthorizationToken",
                &[],
                "",
            ),
        ),
        (
            "cognito-identity",
            of("POST", "/?Action=GetCredentialsForIdentity", &[], ""),
        ),
        (
            "cognito-identity",
            of(
                "POST",
                "/",
                &[(
                    TARGET,
                    "AWSCognitoIdentityService#GetCredentialsForIdentity",
                )],
                "{}",
            ),
        ),
        ("connect", of("GET", "/user/federate/instance", &[], "")),
        (
            "codeartifact",
            of("POST", "/v1/authorization-token?domain=d", &[], ""),
        ),
    ]
}

/// Of services whose answers are sessions, keys and passwords.
fn of_more() -> Vec<(&'static str, Case)> {
    vec![
        ("ssm", aimed("AmazonSSM.StartSession")),
        ("ssm", aimed("AmazonSSM.ResumeSession")),
        (
            "ecs",
            aimed("AmazonEC2ContainerServiceV20141113.ExecuteCommand"),
        ),
        ("gamelift", aimed("GameLift.GetInstanceAccess")),
        (
            "lightsail",
            aimed("Lightsail_20161128.GetInstanceAccessDetails"),
        ),
        (
            "lightsail",
            aimed("Lightsail_20161128.DownloadDefaultKeyPair"),
        ),
        (
            "lightsail",
            aimed("Lightsail_20161128.GetRelationalDatabaseMasterUserPassword"),
        ),
        (
            "ec2",
            of("POST", "/", &[], "Action=CreateKeyPair&KeyName=k"),
        ),
        ("ec2", of("GET", "/?Action=CreateKeyPair", &[], "")),
        ("apigateway", of("POST", "/apikeys", &[], "{}")),
        (
            "apigateway",
            of("GET", "/api%6beys/k?include%56alue=true", &[], ""),
        ),
        ("appsync", of("GET", "/v1/apis/a/apikeys", &[], "")),
        ("apigateway", of("GET", "/usageplans/p/keys", &[], "")),
        ("grafana", of("POST", "/workspaces/w/apikeys", &[], "{}")),
        (
            "grafana",
            of("POST", "/workspaces/w/serviceaccounts/s/tokens", &[], "{}"),
        ),
        ("airflow", of("POST", "/clitoken/e", &[], "")),
        ("airflow", of("POST", "/webtoken/e", &[], "")),
        ("iot", of("POST", "/keys-and-certificate", &[], "")),
        ("sagemaker", aimed("SageMaker.CreatePresignedDomainUrl")),
        ("ec2", of("POST", "/", &[], "Action=CreateVpnConnection")),
        ("iot", aimed("IoTSecuredTunneling.OpenTunnel")),
    ]
}

/// Of services that are asked by paths, and hand roles and tokens out.
fn of_paths() -> Vec<(&'static str, Case)> {
    let asked = |(service, method, path)| (service, of(method, path, &[], "{}"));
    let all = [
        (
            "eks-auth",
            "POST",
            "/clusters/c/assume-role-for-pod-identity",
        ),
        (
            "datazone",
            "GET",
            "/v2/domains/d/environments/e/credentials",
        ),
        ("deadline", "GET", "/2023-10-12/farms/f/queues/q/user-roles"),
        ("deadline", "GET", "/2023-10-12/farms/f/queues/q/read-roles"),
        (
            "deadline",
            "GET",
            "/2023-10-12/farms/f/fleets/l/workers/w/fleet%2Droles",
        ),
        (
            "emr-containers",
            "POST",
            "/virtualclusters/v/endpoints/e/credentials",
        ),
        ("bedrock-agentcore", "POST", "/identities/api-key"),
        (
            "bedrock-agentcore",
            "POST",
            "/identities/GetWorkloadAccessToken",
        ),
        ("geo", "POST", "/metadata/v0/keys"),
        ("ivs", "POST", "/CreateParticipantToken"),
        ("ivschat", "POST", "/CreateChatToken"),
    ];
    all.map(asked).into()
}

#[test]
fn nothing_is_signed_whose_answer_would_be_credentials() {
    let all = of_sts()
        .into_iter()
        .chain(of_others())
        .chain(of_more())
        .chain(of_paths());
    for (service, asked) in all {
        let refused = treated(false, service, asked.clone()).err();
        let refused = refused.unwrap_or_else(|| panic!("signed for: {service} {:?}", asked.target));
        assert_eq!(refused.reason, DenyReason::SecretUnplaceable, "{service}");
        assert!(refused.why.contains("hands_out"), "{}", refused.why);
        assert_eq!(treated(true, service, asked), Ok(()), "{service}");
    }
}

#[test]
fn what_hands_out_nothing_is_signed_for() {
    for (service, asked) in [
        (
            "sts",
            of(
                "POST",
                "/",
                &[],
                "Action=GetCallerIdentity&Version=2011-06-15",
            ),
        ),
        ("sts", of("GET", "/?Action=GetCallerIdentity", &[], "")),
        (
            "iam",
            of("POST", "/", &[], "Action=ListAccessKeys&Version=2010-05-08"),
        ),
        ("iam", of("POST", "/", &[], "Action=GetCredentialReport")),
        (
            "s3",
            of(
                "GET",
                "/get-session-token?prefix=session",
                &[(HASHED, NOTHING)],
                "",
            ),
        ),
        (
            "s3express",
            of("GET", "/AssumeRole", &[(HASHED, NOTHING)], ""),
        ),
        (
            "dynamodb",
            of("POST", "/", &[(TARGET, "DynamoDB_20120810.GetItem")], "{}"),
        ),
        ("ecr", aimed("X_V20150921.BatchGetImage")),
        ("ssm", aimed("AmazonSSM.SendCommand")),
        ("athena", aimed("AmazonAthena.StartSession")),
        ("lightsail", aimed("Lightsail_20161128.GetInstance")),
        ("ec2", of("POST", "/", &[], "Action=DescribeKeyPairs")),
        ("apigateway", of("GET", "/apikeys/k", &[], "")),
        ("grafana", of("GET", "/workspaces/w/apikeys", &[], "")),
        ("iot", of("GET", "/things", &[], "")),
        ("appsync", of("POST", "/v1/apis", &[], "{}")),
        (
            "datazone",
            of("GET", "/v2/domains/d/environments/e", &[], ""),
        ),
        (
            "deadline",
            of("GET", "/2023-10-12/farms/f/queues/q", &[], ""),
        ),
        ("geo", of("POST", "/metadata/v0/list-keys", &[], "{}")),
        (
            "lambda",
            of("GET", "/2015-03-31/functions/assume-x", &[], ""),
        ),
        (
            "ecr",
            of("POST", "/service/X/operation/BatchGetImage", &[], ""),
        ),
    ] {
        assert_eq!(treated(false, service, asked), Ok(()), "{service}");
    }
}
