//! One appliance, and journeys played against it.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use gig_tests::lab::{place, postgres::Database};

use crate::world::World;

/// A running `gig serve` with a data directory of its own; ends with its handle.
pub struct Stage {
    gig: Child,
    folder: tempfile::TempDir,
    world: World,
    address: String,
    /// Where it keeps what others keep in files.
    database: Option<Database>,
}

impl Stage {
    pub fn set() -> Self {
        Self::set_with(&[])
    }

    /// With more of an environment.
    pub fn set_with(environment: &[(&str, &str)]) -> Self {
        Self::set_on(None, environment)
    }

    /// On a PostgreSQL.
    pub fn set_on_postgres() -> Self {
        Self::set_on(Some(Database::fresh()), &[])
    }

    fn set_on(database: Option<Database>, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let world = World::start();
        let said = File::create(folder.path().join("said")).expect("a file");
        let mut command = gig(&folder);
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("HTTPS_PROXY", format!("http://{}", world.address))
            .env("GIG_UPSTREAM_PROXY_NAMES", "proxy")
            .envs(environment.iter().copied())
            .envs(database.iter().map(|database| (DATABASE, database.url())));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let gig = command.stderr(said).spawn().expect("start gig");
        let mut stage = Self {
            gig,
            folder,
            world,
            address: String::new(),
            database,
        };
        let link = stage.link();
        let (address, _) = link.split_once("/setup/").expect("a link");
        address.clone_into(&mut stage.address);
        stage
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    /// The set-up link, once gig says it.
    fn link(&mut self) -> String {
        let begun = Instant::now();
        loop {
            let said = fs::read_to_string(self.folder.path().join("said")).expect("its words");
            let mut words = said.split_whitespace();
            // Its last word, and whole: the line has ended.
            if let Some(link) = words.find(|word| word.contains("/setup/"))
                && said.ends_with('\n')
            {
                return link.to_owned();
            }
            let ended = self.gig.try_wait().expect("its state");
            assert!(ended.is_none(), "gig ended: {said}");
            assert!(begun.elapsed() < PATIENCE, "it does not serve: {said}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Plays `journeys/NAME.cjs` to its end.
    pub fn play(&self, name: &str) {
        self.play_with(name, &[]);
    }

    /// The same with what the journey is told beside.
    pub fn play_with(&self, name: &str, told: &[(&str, &str)]) {
        let here = place::repository().join("tests/browser/journeys");
        let shots = place::repository().join("target/browser");
        fs::create_dir_all(&shots).expect("a folder for screenshots");
        let said = fs::read_to_string(self.folder.path().join("said")).expect("its words");
        let mut words = said.split_whitespace();
        let link = words.find(|word| word.contains("/setup/"));
        let played = Command::new("node")
            .arg(here.join(format!("{name}.cjs")))
            .env("NODE_PATH", place::client("browser").join("node_modules"))
            .env("GIG_TEST_CONSOLE", &self.address)
            .env("GIG_TEST_SETUP", link.expect("a link"))
            .env("GIG_TEST_SHOTS", shots.join(name))
            .env("GIG_TEST_GIG", place::gig())
            .env("GIG_DATA_DIR", data(&self.folder))
            .envs(self.database.iter().map(|one| (DATABASE, one.url())))
            .envs(told.iter().copied())
            // The browser's own, gone with this folder.
            .env("TMPDIR", self.folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("start node");
        let said = fs::read_to_string(self.folder.path().join("said")).unwrap_or_default();
        assert!(
            played.status.success(),
            "{name}: {}\n{}{}\ngig: {said}",
            played.status,
            String::from_utf8_lossy(&played.stdout),
            String::from_utf8_lossy(&played.stderr),
        );
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _gone = self.gig.kill();
        let _gone = self.gig.wait();
    }
}

fn data(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("gig")
}

fn gig(folder: &tempfile::TempDir) -> Command {
    let mut command = Command::new(place::gig());
    command.env("GIG_DATA_DIR", data(folder));
    for name in [
        DATABASE,
        "GIG_LISTEN",
        "GIG_PUBLIC_URL",
        "GIG_MASTER_KEY",
        "GIG_MASTER_KEY_FILE",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
        "NO_PROXY",
        "no_proxy",
    ] {
        command.env_remove(name);
    }
    command
}

const DATABASE: &str = "GIG_DATABASE_URL";
/// On a machine ten times slower.
const PATIENCE: Duration = Duration::from_secs(120);
