//! Pictures of the store screens. Review a change by eye.

use rmq::tui::app::{App, Screen};

use super::console::Console;
use crate::tui::fixture::{Look, NOW, picture, text};

const SIZES: [(u16, u16); 3] = [(80, 24), (100, 30), (200, 60)];

/// What differs from run to run is set.
fn fixed(console: &Console) -> App {
    let mut app = console.app.clone();
    app.store.root = Some("/data/store".into());
    app.store.about = Some(("/data/store".into(), None));
    if let Some(checks) = &mut app.store.checks.value {
        checks.read_ms = NOW;
    }
    if let Some(seen) = &mut app.store.verify.value {
        seen.root = "/data/store".into();
        seen.begun_ms = NOW;
        seen.elapsed_ms = 41_000;
        for (_, ms) in &mut seen.passes {
            *ms = 1000;
        }
    }
    app
}

/// One console, walked to a place, in every size.
fn pictures(name: &str, keys: &[&str]) -> String {
    let mut console = Console::new(name, Look::of((100, 30)));
    walk(&mut console, keys);
    let pictures = SIZES.map(|size| {
        console.app.size = size;
        console.answer();
        let mut app = fixed(&console);
        app.size = size;
        format!("{}x{}\n{}", size.0, size.1, text(&picture(&app)))
    });
    pictures.join("\n")
}

fn walk(console: &mut Console, keys: &[&str]) {
    for key in keys {
        match key.strip_prefix("type ") {
            Some(text) => console.type_in(text),
            None => drop(console.press(&[key])),
        }
    }
}

macro_rules! pictures {
    ($($test:ident: $store:literal $keys:expr;)*) => {$(
        #[test]
        fn $test() {
            insta::assert_snapshot!(stringify!($test), pictures($store, &$keys));
        }
    )*};
}

pictures! {
    store_log: "basic" ["g", "type 4000"];
    store_newest: "basic" [];
    store_hex: "basic" ["g", "type 4000", "x", "down", "down"];
    store_tree: "basic" ["g", "type 4000", "tab", "end"];
    store_torn: "torn-flip" ["g", "type 2286028"];
    store_torn_tail: "torn-tail" [];
    store_delayed: "delay-tx" ["/", "type SCHEDULE_TOPIC_XXXX"];
    store_queue: "basic" ["q", "/", "type g_basic_a/2", "v"];
    store_queue_batch: "features" ["q", "/", "type g_bcq"];
    store_index: "basic" ["g", "type 4000", "i", "tab"];
    store_key: "basic" ["i", "/", "type g_basic_b#kAaAa"];
    store_hottest: "basic" ["i", "[", "H"];
    store_checks: "basic" ["K"];
    store_verified: "torn-flip" ["V"];
}

#[test]
fn store_in_mono_and_ascii() {
    let mut shown = Vec::new();
    for (colour, ascii) in [(false, false), (true, true)] {
        for keys in [&["g", "type 4000"][..], &["i", "tab"], &["V"]] {
            let look = Look {
                size: (100, 30),
                colour,
                ascii,
            };
            let mut console = Console::new("basic", look);
            walk(&mut console, keys);
            let buffer = picture(&fixed(&console));
            if !colour {
                let styles = buffer.content.iter().map(|cell| (cell.fg, cell.bg));
                assert!(styles.into_iter().all(|(fg, bg)| {
                    fg == ratatui::style::Color::Reset && bg == ratatui::style::Color::Reset
                }));
            }
            if ascii {
                let text = text(&buffer);
                // Tags in other scripts stay as they are.
                let signs: String = text
                    .chars()
                    .filter(|c| !c.is_ascii() && !c.is_alphanumeric())
                    .collect();
                assert_eq!(signs, "");
            }
            shown.push(format!(
                "colour {colour} ascii {ascii} {keys:?}\n{}",
                text(&buffer)
            ));
        }
    }
    insta::assert_snapshot!("store_mono_and_ascii", shown.join("\n"));
}

#[test]
fn without_a_store_the_screen_says_how_to_get_one() {
    let mut console = Console::new("basic", Look::of((100, 30)));
    console.app.store = rmq::tui::store::State::new(None, None);
    assert_eq!(console.app.place.screen, Screen::Store);
    let shown = text(&picture(&console.app));
    assert!(shown.contains("rmq tui --store DIR"), "{shown}");
}
