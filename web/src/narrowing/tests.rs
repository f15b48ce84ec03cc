//! What tokens may be narrowed to, and what they may then.

use super::*;

fn of(role: Role, scopes: &[&str], servers: &[&str]) -> Result<Narrowing, NarrowingRefused> {
    Narrowing::of(role, scopes.iter().copied(), servers.iter().copied())
}

#[test]
fn every_permission_but_people_has_a_scope_and_each_lets_its_own_alone() {
    for scope in Scope::ALL {
        let narrow = Narrowing::kept(scope.as_str(), "").unwrap();
        for other in Scope::ALL {
            assert_eq!(
                narrow.lets(other.permission()),
                scope == other,
                "{scope:?} {other:?}"
            );
        }
        assert!(!narrow.lets(Permission::ManageUsers), "{scope:?}");
        assert!(!narrow.lets(Permission::RuleChanges), "{scope:?}");
        let oversees = scope == Scope::OverseeProfiles;
        assert_eq!(
            narrow.lets(Permission::OverseeProfiles),
            oversees,
            "{scope:?}"
        );
        assert_eq!(scope.as_str().parse::<Scope>(), Ok(scope));
        assert_eq!(serde_json::to_value(scope).unwrap(), scope.as_str());
    }
    assert!(Narrowing::default().lets(Permission::ManageUsers));
    assert!(Narrowing::default().lets(Permission::OverseeProfiles));
    let unnamed = [
        Narrowing::default(),
        of(Role::Admin, &[], &["docs"]).unwrap(),
    ];
    for narrow in &unnamed {
        assert!(!narrow.lets(Permission::ActForProfiles), "{narrow:?}");
        assert!(!narrow.lets(Permission::RegisterNamespaces), "{narrow:?}");
    }
    assert!(!unnamed[1].lets(Permission::OverseeProfiles));
    let words = of(Role::Admin, &["people:write"], &[])
        .unwrap_err()
        .to_string();
    assert!(words.contains("policies:write"), "{words}");
}

#[test]
fn nothing_is_narrowed_to_more_than_the_role_has() {
    let refused = of(Role::Auditor, &["read", "servers:run"], &[]);
    assert_eq!(
        refused,
        Err(NarrowingRefused::Beyond("servers:run", Role::Auditor))
    );
    let refused = of(Role::Admin, &["read", "secrets:write"], &["docs"]);
    assert_eq!(
        refused,
        Err(NarrowingRefused::NotOfServers("secrets:write"))
    );
    for scope in Scope::ALL.map(Scope::as_str) {
        let refused = of(Role::Admin, &["read", scope, "profiles:oversee"], &[]);
        match scope {
            "read" | "audit" | "profiles:oversee" => assert!(refused.is_ok(), "{scope}"),
            _ => assert_eq!(refused, Err(NarrowingRefused::Oversees(scope))),
        }
        // As one that was made before that was refused.
        let kept = Narrowing::kept(&format!("profiles:oversee {scope}"), "").unwrap();
        let permission = scope.parse::<Scope>().unwrap().permission();
        assert_eq!(kept.lets(permission), refused.is_ok(), "{scope}");
    }
    assert!(of(Role::Editor, &["profiles:oversee"], &[]).is_err());
    assert!(of(Role::Editor, &["namespaces:register"], &[]).is_err());
    assert!(of(Role::Admin, &["namespaces:register"], &["box"]).is_ok());
    assert!(of(Role::Auditor, &["audit", "profiles:oversee"], &["docs"]).is_ok());
    assert!(of(Role::Admin, &[], &["a b"]).is_err() && of(Role::Admin, &[], &[""]).is_err());
}

#[test]
fn a_token_that_could_do_nothing_is_not_made() {
    for (scopes, servers) in [
        (vec!["profiles:oversee"], vec![]),
        (vec!["profiles:act"], vec![]),
        (vec!["audit"], vec!["docs"]),
        (vec!["read", "audit"], vec!["docs"]),
    ] {
        let refused = of(Role::Admin, &scopes, &servers);
        let told = refused.expect_err("refused").to_string();
        assert!(told.contains("add "), "{scopes:?}: {told}");
    }
    for (scopes, servers) in [
        (vec!["read", "profiles:oversee"], vec![]),
        (vec!["servers:run", "profiles:act"], vec!["docs"]),
        (vec!["namespaces:register", "profiles:act"], vec!["box"]),
        (vec!["audit", "profiles:oversee"], vec!["docs"]),
        (vec!["audit", "servers:run"], vec!["docs"]),
        (vec!["audit"], vec![]),
    ] {
        assert!(of(Role::Admin, &scopes, &servers).is_ok(), "{scopes:?}");
    }
    // One that was made before is what it was.
    assert!(Narrowing::kept("audit", "docs").is_ok());
}

#[test]
fn a_token_of_servers_finds_these_alone() {
    let narrow = of(Role::Admin, &[], &["docs", "mail"]).unwrap();
    assert!(narrow.reaches("docs") && narrow.reaches("mail") && !narrow.reaches("doc"));
    for permission in [
        Permission::Look,
        Permission::ReadAudit,
        Permission::RunSandboxes,
        Permission::AnswerHeld,
    ] {
        assert!(narrow.lets(permission));
    }
    for permission in [
        Permission::ManageServers,
        Permission::ManageSecrets,
        Permission::EditPolicies,
        Permission::SetFloors,
    ] {
        assert!(!narrow.lets(permission));
    }
    for path in [
        "/api/v1/servers",
        "/api/v1/servers/docs/start",
        "/api/v1/sandboxes/x/log",
        "/api/v1/held",
        "/api/v1/held/x/allow",
    ] {
        assert!(narrow.opens(path), "{path}");
    }
    for path in [
        "/",
        "/api/v1/policies",
        "/api/v1/audit",
        "/metrics",
        "/api/v1/serversx",
        "/api/v1/floors",
        "/people",
    ] {
        assert!(!narrow.opens(path), "{path}");
    }
    let scoped = of(Role::Viewer, &["read"], &[]).unwrap();
    assert!(scoped.opens("/api/v1/policies") && scoped.opens("/metrics") && !scoped.opens("/"));
    let kept = Narrowing::kept("", "docs mail").unwrap();
    assert_eq!(kept, narrow);
    assert!(Narrowing::kept("everything", "").is_err());
}
