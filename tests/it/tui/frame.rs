//! What is around the screens: keys and themes of one's own, the budget of calls, the clipboard's file, the recording, and
//! replies that cannot be read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rmq::tui::app::{Action, Screen};
use rmq::tui::keys::Keys;

use super::fixture::{Look, Story, console, picture, press, text};
use super::program::{Program, runtime};
use super::servers::{Fake, Running};

/// A directory with a configuration and two themes in it, one of them wrong.
fn configured(keys: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let themes = dir.path().join("themes");
    std::fs::create_dir(&themes).unwrap();
    std::fs::write(themes.join("night.toml"), "label = \"#010203\"\nfocus = 214\n").unwrap();
    std::fs::write(themes.join("bad.toml"), "label = \"#01020\"\n").unwrap();
    let file = dir.path().join("config.toml");
    std::fs::write(&file, format!("[keys]\n{keys}\n")).unwrap();
    let file = file.display().to_string();
    (dir, file)
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "no {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn content(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().filter(|text| !text.is_empty())
}

#[test]
fn help_footer_and_hints_have_the_keys_of_the_configuration() {
    let mut app = console(Story::OneDead, Screen::Brokers, Look::of((100, 30)));
    let own = [("quit", "Q"), ("help", "f1"), ("refresh", "R"), ("down", "J")];
    let own: BTreeMap<String, Vec<String>> = own.map(|(a, k)| (a.to_owned(), vec![k.to_owned()])).into();
    // R resends on other screens.
    assert!(Keys::with(&own).is_err());
    let own = own
        .into_iter()
        .filter(|(action, _)| action != "refresh")
        .collect();
    app.settings.keys = Keys::with(&own).unwrap();
    let shown = text(&picture(&app));
    let footer = shown.lines().last().unwrap();
    assert!(
        footer.contains("J/k move") && footer.contains("Q quit"),
        "{footer}"
    );
    assert_eq!(press(&mut app, "q"), []);
    assert_eq!(press(&mut app, "Q"), [Action::Quit]);
    press(&mut app, "J");
    assert_eq!(app.selected_broker().unwrap().broker.id, 1);
    press(&mut app, "?");
    assert_eq!(app.overlay, None);
    let f1 = crossterm::event::KeyEvent::from(crossterm::event::KeyCode::F(1));
    let now = app.now_ms;
    rmq::tui::app::update(&mut app, now, rmq::tui::app::Event::Key(f1));
    // The last page has the last line of the table.
    press(&mut app, "G");
    let shown = text(&picture(&app));
    assert!(shown.contains("Q ctrl-c") && shown.contains("f1 "), "{shown}");
}

#[test]
fn a_wrong_configuration_is_told_before_the_screen_opens() {
    for (keys, words, said) in [
        (
            "quti = \"Q\"",
            &[][..],
            "config.toml: keys.quti: there is no such action",
        ),
        (
            "perm = \"r\"",
            &[][..],
            "config.toml: keys.perm: the key r means refresh",
        ),
        (
            "",
            &["--theme", "bad"][..],
            "themes/bad.toml: label: \"#01020\" is no colour",
        ),
        ("", &["--theme", "nihgt"][..], "there is no theme \"nihgt\""),
    ] {
        let (_dir, file) = configured(keys);
        let program = Program::of(&[&["-n", "127.0.0.1:1", "--config", &file], words].concat());
        let (success, shown) = program.ends();
        assert!(!success);
        // Long lines are broken by the terminal.
        assert!(shown.replace('\n', "").contains(said), "{shown}");
    }
}

fn cluster(topics: usize) -> (tokio::runtime::Runtime, Running, Running) {
    let runtime = runtime();
    let (broker, servers) = runtime.block_on(async {
        let broker = Fake::broker(topics, false).await;
        let servers = Fake::name_server(&[("broker-a", broker.addr)]).await;
        (broker, servers)
    });
    (runtime, broker, servers)
}

#[test]
fn own_theme_keys_recording_and_bad_replies_in_the_program() {
    let (_runtime, broker, servers) = cluster(3);
    let (dir, file) = configured("quit = \"Q\"");
    let record = dir.path().join("history");
    let record_dir = record.display().to_string();
    let addr = servers.addr.to_string();
    let words = [
        "-n",
        &addr,
        "--config",
        &file,
        "--theme",
        "night",
        "--interval",
        "500ms",
        "--record",
        &record_dir,
    ];
    let mut program = Program::of(&words);
    program.shows("brokers 1/1");
    let mine = [vt100::Color::Rgb(1, 2, 3), vt100::Color::Idx(214)];
    wait_for("own colours", || {
        mine.iter().all(|c| program.colours().contains(c)).then_some(())
    });
    let name = format!("{}.jsonl", addr.replace(':', "%3A"));
    let recorded = wait_for("recording", || {
        content(&record.join(&name)).filter(|text| text.contains("\"in\""))
    });
    assert!(
        recorded.lines().all(|line| line.starts_with("{\"t\":")),
        "{recorded}"
    );
    broker.fake.babbles.store(true, Ordering::SeqCst);
    program.press("2");
    program.shows("bad reply of broker-a:0");
    let kept = wait_for("bad reply", || {
        let files = std::fs::read_dir(program.state("bad-replies")).ok()?;
        files.flatten().find_map(|file| std::fs::read(file.path()).ok())
    });
    assert_eq!(kept, b"{\"table\": \x00 no answer");
    program.press("q");
    program.press("Q");
    assert!(program.ends().0);
}

#[test]
fn a_terminal_without_clipboard_and_colour_gets_a_file_and_none() {
    let (_runtime, _broker, servers) = cluster(3);
    let (_dir, file) = configured("");
    let addr = servers.addr.to_string();
    let words = [
        "-n", &addr, "--config", &file, "--theme", "night", "--screen", "brokers",
    ];
    let mut program = Program::with(&words, &[("TERM", "linux"), ("NO_COLOR", "1")]);
    program.shows("brokers 1/1");
    program.press("y");
    program.shows("clipboard.txt");
    assert_eq!(
        content(&program.state("clipboard.txt")).as_deref(),
        Some("broker-a")
    );
    assert!(
        program
            .colours()
            .iter()
            .all(|colour| *colour == vt100::Color::Default)
    );
    program.press("q");
    assert!(program.ends().0);
}

/// Every screen, an impatient operator, and three hundred topics: within the budget all the same.
#[test]
fn no_screen_asks_more_than_the_budget() {
    const BUDGET: usize = 10;
    let (_runtime, broker, servers) = cluster(300);
    let addr = servers.addr.to_string();
    let mut program = Program::of(&["-n", &addr, "--interval", "500ms", "--budget", "10"]);
    program.shows("brokers 1/1");
    let start = Instant::now();
    let mut screens = "45678123".chars().cycle();
    while start.elapsed() < Duration::from_secs(6) {
        let screen = screens.next().unwrap();
        program.press(&screen.to_string());
        if matches!(screen, '4' | '5') {
            // The detail of the first row, and back.
            program.press("\r");
            std::thread::sleep(Duration::from_millis(150));
            program.press("\x1b");
        }
        program.press("r");
        std::thread::sleep(Duration::from_millis(100));
    }
    program.press("1q");
    assert!(program.ends().0);
    let asked = broker.fake.asked();
    // Four, and one that a screen has left: the console waits for it no more, the broker is still at it.
    assert!(
        broker.fake.most_flying() <= 5,
        "{} at once",
        broker.fake.most_flying()
    );
    // A call leaves in its second; a busy machine may make two seconds' calls arrive in one.
    for (first, (at, _)) in asked.iter().enumerate() {
        let stretch = asked[first..]
            .iter()
            .take_while(|(other, _)| *other - *at <= Duration::from_secs(3));
        let count = stretch.count();
        assert!(count <= BUDGET * 4, "{count} calls in three seconds");
    }
    // There was more to ask than the budget allows.
    assert!(asked.len() >= BUDGET * 2, "{} calls", asked.len());
}
