//! The console in a real browser: each journey a person makes, and every page looked at.
//!
//! A journey is a script in `journeys/`, played by Node in Chromium against a `gig serve` of its own;
//! everything it does, it does as a person would, by what the pages show. Whatever page it comes by is
//! held to the same: nothing fetched from elsewhere, nothing that the page's own policy refused, no
//! scrolling sideways. Screenshots lie in `target/browser` for whoever wants to look. Nothing beyond
//! this machine is asked for: what sandboxes reach is [`world::World`].

mod stage;
mod world;

use gig_tests::lab::openid_provider::OpenIdProvider;
use stage::Stage;

#[test]
fn the_first_admin_is_made_by_the_one_time_link() {
    Stage::set().play("set_up");
}

#[test]
fn a_denial_becomes_a_rule_in_two_clicks_and_the_same_request_passes() {
    let stage = Stage::set();
    stage.play("allow_from_denial");
    // The browser saw "allowed": the other side saw the request, and nothing before the rule.
    assert_eq!(stage.world().asked(), ["GET /wanted"]);
}

#[test]
fn an_allowed_record_is_one_click_from_its_rule() {
    let stage = Stage::set();
    stage.play("rule_of_record");
    assert_eq!(stage.world().asked(), ["GET /wanted"]);
}

#[test]
fn a_denial_is_allowed_where_it_is_in_force_now_and_where_nothing_was() {
    let stage = Stage::set();
    stage.play("allow_where_now");
    assert_eq!(stage.world().asked(), ["GET /first", "GET /second"]);
}

#[test]
fn a_document_is_checked_while_it_is_typed() {
    Stage::set().play("typed");
}

#[test]
fn a_request_that_waits_is_allowed_once_for_ever_or_denied_by_a_person() {
    let stage = Stage::set();
    stage.play("held");
    // It waited: before a word nothing went, and after a no nothing does.
    assert_eq!(
        stage.world().asked(),
        ["GET /once", "GET /ever", "GET /ever"]
    );
}

#[test]
fn what_was_observed_is_suggested_simulated_approved_by_another_and_rolled_back() {
    Stage::set().play("second_person");
}

/// The same on the database of a fleet.
#[test]
fn journeys_of_decisions_and_of_the_record_go_as_well_on_postgresql() {
    for journey in ["second_person", "held", "search_and_export"] {
        let stage = Stage::set_on_postgres();
        stage.play(journey);
    }
}

/// And what the first people who come do.
#[test]
fn journeys_from_the_set_up_to_the_end_of_a_session_go_as_well_on_postgresql() {
    for (journey, asked) in [
        ("set_up", &[][..]),
        ("allow_from_denial", &["GET /wanted"][..]),
        ("secret_uses", &["GET /pay"][..]),
        ("end_session", &[][..]),
    ] {
        let stage = Stage::set_on_postgres();
        stage.play(journey);
        assert_eq!(stage.world().asked(), asked, "{journey}");
    }
}

#[test]
fn the_record_is_searched_by_keyboard_and_exported() {
    Stage::set().play("search_and_export");
}

#[test]
fn a_secrets_uses_are_found_and_it_gets_another_value() {
    let stage = Stage::set();
    stage.play("secret_uses");
    assert_eq!(stage.world().asked(), ["GET /pay"]);
}

#[test]
fn a_server_is_changed_and_its_sandbox_and_a_record_of_it_are_looked_at() {
    Stage::set().play("one_of_each");
}

#[test]
fn a_session_is_ended_and_its_browser_is_out() {
    Stage::set().play("end_session");
}

#[test]
fn by_keys_alone_a_policy_is_written_a_denial_allowed_and_a_session_ended() {
    let stage = Stage::set();
    stage.play("keys");
    assert_eq!(stage.world().asked(), ["GET /wanted"]);
}

#[test]
fn a_second_factor_is_set_up_and_asked_for() {
    Stage::set().play("second_factor");
}

#[test]
fn what_is_recorded_is_seen_as_it_is_recorded() {
    Stage::set().play("watch_live");
}

#[test]
fn somebody_of_the_company_signs_in_through_their_provider_and_nobody_in_their_place() {
    let claims = r#"{"sub":"u-1","preferred_username":"eva","groups":["writers"]}"#;
    let provider = OpenIdProvider::start("ES256", claims);
    let mut environment = provider.environment().to_vec();
    // It is on this machine, not behind the proxy of the world.
    environment.extend([
        ("GIG_OUTBOUND_PRIVATE", "127.0.0.0/8"),
        ("NO_PROXY", "127.0.0.1"),
    ]);
    let stage = Stage::set_with(&environment);
    stage.play_with("sign_on", &[("GIG_TEST_PROVIDER", provider.issuer())]);
}

#[test]
fn every_page_is_accessible_in_both_schemes_and_fits_a_phone() {
    Stage::set().play("every_page");
}

#[test]
fn every_page_is_read_without_a_script() {
    Stage::set().play("without_script");
}
