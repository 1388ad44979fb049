//! Pictures of every screen in every size and story. Review a change by eye.

use ratatui::style::{Color, Modifier};
use rmq::tui::app::Screen;

use super::fixture::{Look, Story, answer, console, flood, picture, press, text, type_text};

const SIZES: [(u16, u16); 3] = [(80, 24), (100, 30), (200, 60)];
const STORIES: [Story; 6] = [
    Story::Healthy,
    Story::OneDead,
    Story::Unreachable,
    Story::AllDied,
    Story::Empty,
    Story::Names,
];

fn pictures(story: Story, screen: Screen) -> String {
    let pictures = SIZES.map(|size| {
        let app = console(story, screen, Look::of(size));
        format!("{}x{}\n{}", size.0, size.1, text(&picture(&app)))
    });
    pictures.join("\n")
}

macro_rules! pictures {
    ($($name:ident: $story:ident $screen:ident;)*) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!(stringify!($name), pictures(Story::$story, Screen::$screen));
        }
    )*};
}

pictures! {
    overview_healthy: Healthy Overview;
    overview_one_dead: OneDead Overview;
    overview_unreachable: Unreachable Overview;
    overview_all_died: AllDied Overview;
    overview_empty: Empty Overview;
    overview_names: Names Overview;
    heartbeats_healthy: Healthy Heartbeats;
    heartbeats_one_dead: OneDead Heartbeats;
    heartbeats_unreachable: Unreachable Heartbeats;
    heartbeats_all_died: AllDied Heartbeats;
    heartbeats_empty: Empty Heartbeats;
    heartbeats_names: Names Heartbeats;
    brokers_healthy: Healthy Brokers;
    brokers_one_dead: OneDead Brokers;
    brokers_unreachable: Unreachable Brokers;
    brokers_all_died: AllDied Brokers;
    brokers_empty: Empty Brokers;
    brokers_names: Names Brokers;
    broker_healthy: Healthy Broker;
    broker_one_dead: OneDead Broker;
    broker_all_died: AllDied Broker;
    broker_names: Names Broker;
    topics_healthy: Healthy Topics;
    topics_one_dead: OneDead Topics;
    topics_all_died: AllDied Topics;
    topics_empty: Empty Topics;
    topics_names: Names Topics;
    topic_healthy: Healthy Topic;
    topic_one_dead: OneDead Topic;
    topic_all_died: AllDied Topic;
    topic_empty: Empty Topic;
    topic_names: Names Topic;
    groups_healthy: Healthy Groups;
    groups_one_dead: OneDead Groups;
    groups_all_died: AllDied Groups;
    groups_empty: Empty Groups;
    groups_names: Names Groups;
    group_healthy: Healthy Group;
    group_one_dead: OneDead Group;
    group_all_died: AllDied Group;
    group_empty: Empty Group;
    group_names: Names Group;
    offsets_healthy: Healthy Offsets;
    offsets_one_dead: OneDead Offsets;
    offsets_all_died: AllDied Offsets;
    offsets_empty: Empty Offsets;
    offsets_names: Names Offsets;
}

/// The first and the last page of a list of ten thousand.
#[test]
fn ten_thousand_rows() {
    for (name, screen, rows) in [
        ("topics_many", Screen::Topics, 10_004),
        ("groups_many", Screen::Groups, 10_003),
    ] {
        let mut shown = Vec::new();
        for size in SIZES {
            let mut app = console(Story::Healthy, screen, Look::of(size));
            flood(&mut app);
            shown.push(format!("{}x{}\n{}", size.0, size.1, text(&picture(&app))));
            press(&mut app, "G");
            answer(&mut app, Story::Healthy);
            let last = text(&picture(&app));
            let pane = app.focus();
            let table = app.table(pane);
            assert_eq!(table.rows.len(), rows);
            assert_eq!(app.selected(pane, &table), Some(rows - 1));
            assert!(last.contains(&table.rows[rows - 1].name), "{last}");
            shown.push(last);
        }
        insta::assert_snapshot!(name, shown.join("\n"));
    }
}

/// What every screen says when nobody answers, when nobody answers any more, and when there is nothing.
#[test]
fn every_screen_says_why_there_is_nothing() {
    for screen in Screen::ALL {
        for size in SIZES {
            let shown = |story| text(&picture(&console(story, screen, Look::of(size))));
            let nobody = shown(Story::Unreachable);
            assert!(nobody.contains("no name server has answered"), "{nobody}");
            let gone = shown(Story::AllDied);
            assert!(gone.contains("no name server since 12:03:4"), "{gone}");
            let empty = shown(Story::Empty);
            assert!(empty.contains("brokers 0/0"), "{empty}");
            let one = shown(Story::OneDead);
            assert!(one.contains("brokers 3/4!"), "{one}");
        }
    }
}

#[test]
fn overlays() {
    let mut shown = Vec::new();
    for keys in ["?", ":", "s"] {
        let mut app = console(Story::OneDead, Screen::Brokers, Look::of((100, 30)));
        press(&mut app, keys);
        shown.push(text(&picture(&app)));
    }
    let mut app = console(Story::OneDead, Screen::Heartbeats, Look::of((100, 30)));
    press(&mut app, "d");
    shown.push(text(&picture(&app)));
    press(&mut app, "esc");
    press(&mut app, "/");
    type_text(&mut app, "broker-[ab]");
    shown.push(text(&picture(&app)));
    insta::assert_snapshot!("overlays", shown.join("\n"));
}

/// One letter a cell: the style's colour, capital when bold or reversed.
fn styles(app: &rmq::tui::app::App) -> String {
    let buffer = picture(app);
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        for x in 0..buffer.area.width {
            let cell = &buffer[(x, y)];
            let letter = match (cell.fg, cell.bg) {
                (_, Color::Cyan) => 'n',
                (Color::Red, _) => 'r',
                (Color::Yellow, _) => 'y',
                (Color::Green, _) => 'g',
                (Color::Blue, _) => 'b',
                (Color::Cyan, _) => 'c',
                (Color::Reset, Color::Reset) => '.',
                other => panic!("{other:?} is not in the theme"),
            };
            let strong = cell.modifier.intersects(Modifier::BOLD | Modifier::REVERSED);
            line.push(match (strong, letter) {
                (true, '.') => '#',
                (true, c) => c.to_ascii_uppercase(),
                (false, c) => c,
            });
        }
        out.push_str(line.trim_end_matches('.'));
        out.push('\n');
    }
    out
}

#[test]
fn styles_with_and_without_colour() {
    let look = Look::of((100, 30));
    for (name, look) in [
        ("styles_colour", look),
        (
            "styles_mono",
            Look {
                colour: false,
                ..look
            },
        ),
    ] {
        let pictures: Vec<String> = [Screen::Overview, Screen::Heartbeats, Screen::Brokers]
            .map(|screen| styles(&console(Story::OneDead, screen, look)))
            .into();
        insta::assert_snapshot!(name, pictures.join("\n"));
    }
}

#[test]
fn without_colour_every_screen_says_the_same_in_no_colour() {
    for story in STORIES {
        for screen in Screen::ALL {
            for size in SIZES {
                let colour = console(story, screen, Look::of(size));
                let mono = console(
                    story,
                    screen,
                    Look {
                        colour: false,
                        ..Look::of(size)
                    },
                );
                assert_eq!(text(&picture(&colour)), text(&picture(&mono)));
                for cell in &picture(&mono).content {
                    assert_eq!(
                        (cell.fg, cell.bg),
                        (Color::Reset, Color::Reset),
                        "{story:?} {screen:?} {size:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn ascii_pictures_are_ascii_apart_from_data() {
    for story in STORIES.into_iter().filter(|s| *s != Story::Names) {
        for screen in Screen::ALL {
            for size in SIZES {
                let mut app = console(
                    story,
                    screen,
                    Look {
                        ascii: true,
                        ..Look::of(size)
                    },
                );
                for keys in ["", "?", "esc", ":", "esc", "s", "p"] {
                    if !keys.is_empty() {
                        press(&mut app, keys);
                    }
                    let text = text(&picture(&app));
                    let strange = text.chars().find(|c| !c.is_ascii());
                    assert_eq!(strange, None, "{story:?} {screen:?} {size:?} {keys}\n{text}");
                }
            }
        }
    }
    let app = console(
        Story::OneDead,
        Screen::Overview,
        Look {
            ascii: true,
            ..Look::of((100, 30))
        },
    );
    insta::assert_snapshot!("overview_ascii", text(&picture(&app)));
}

#[test]
fn no_data_reaches_the_terminal_unescaped() {
    for screen in Screen::ALL {
        for size in SIZES {
            let app = console(Story::Names, screen, Look::of(size));
            for cell in &picture(&app).content {
                assert!(
                    !cell.symbol().chars().any(char::is_control),
                    "{:?}",
                    cell.symbol()
                );
                assert!(!cell.symbol().contains('\u{202e}'));
            }
        }
    }
}

#[test]
fn any_size_draws_and_small_ones_say_what_they_need() {
    for story in [Story::OneDead, Story::Names, Story::Unreachable] {
        for screen in Screen::ALL {
            for size in [
                (1, 1),
                (10, 5),
                (58, 14),
                (60, 16),
                (61, 40),
                (79, 23),
                (159, 17),
                (300, 100),
            ] {
                let mut app = console(story, screen, Look::of(size));
                picture(&app);
                for key in ["?", "esc", ":", "esc", "z", "tab", "w", "p"] {
                    press(&mut app, key);
                    picture(&app);
                }
            }
        }
    }
    let app = console(Story::Healthy, Screen::Overview, Look::of((58, 14)));
    assert!(text(&picture(&app)).starts_with("terminal too small (58×14), need 60×16"));
}
