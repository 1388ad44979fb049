//! Colours of the operator's own: a TOML file with a colour for each slot that differs from a built-in theme. Pure.

use ratatui::style::Color;

use super::theme::{Colours, Palette};

/// Every slot with what it colours.
pub const SLOTS: [(&str, &str); 12] = [
    ("text", "ordinary text"),
    ("background", "everything behind it"),
    ("label", "column heads, labels, keys"),
    ("focus", "titles and lines of the focused pane"),
    ("ok", "good"),
    ("warn", "needs a look"),
    ("crit", "needs hands"),
    ("data", "bars, series and other quantities"),
    (
        "selected",
        "text of the selected row; reverse where neither this nor the next is given",
    ),
    ("selected_background", "behind the selected row"),
    ("badge", "text of the badge with the context's name"),
    ("badge_background", "behind the badge"),
];

/// The sixteen colours that a terminal's own palette decides.
const NAMES: [(&str, Color); 16] = [
    ("black", Color::Black),
    ("red", Color::Red),
    ("green", Color::Green),
    ("yellow", Color::Yellow),
    ("blue", Color::Blue),
    ("magenta", Color::Magenta),
    ("cyan", Color::Cyan),
    ("white", Color::Gray),
    ("bright-black", Color::DarkGray),
    ("bright-red", Color::LightRed),
    ("bright-green", Color::LightGreen),
    ("bright-yellow", Color::LightYellow),
    ("bright-blue", Color::LightBlue),
    ("bright-magenta", Color::LightMagenta),
    ("bright-cyan", Color::LightCyan),
    ("bright-white", Color::White),
];

/// The colour of a name, of those that a terminal's own palette decides.
pub fn named(text: &str) -> Result<Color, String> {
    let known = NAMES.iter().find(|(name, _)| *name == text);
    known.map(|(_, colour)| *colour).ok_or_else(|| {
        let names: Vec<&str> = NAMES[..8].iter().map(|(name, _)| *name).collect();
        format!(
            "{text} is no colour: {}, each also with bright- in front",
            names.join(", ")
        )
    })
}

/// Reads a theme's text. What is wrong names its key.
pub fn parse(text: &str) -> Result<Colours, String> {
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        format!(
            "is not valid TOML: {}",
            e.to_string().trim_end().replace('\n', " ")
        )
    })?;
    let mut colours = match table.get("base") {
        None => Palette::Default.colours(),
        Some(base) => {
            let named = base.as_str().and_then(Palette::from_name);
            named
                .filter(|p| *p != Palette::Mono)
                .map(Palette::colours)
                .ok_or_else(|| {
                    format!("base: {base} is no built-in theme with colours: default, light, safe")
                })?
        }
    };
    for (key, value) in table.iter().filter(|(key, _)| *key != "base") {
        let slot = slot(&mut colours, key).ok_or_else(|| {
            let names = SLOTS.map(|(name, _)| name).join(", ");
            format!("{key}: there is no such slot; the slots are base, {names}")
        })?;
        *slot = Some(colour(value).ok_or_else(|| {
            format!(
                "{key}: {value} is no colour: a name (black, red, green, yellow, blue, magenta, cyan, white, each also with \
                 bright- in front), a number from 0 to 255, \"#rrggbb\", or \"default\" for that of ordinary text"
            )
        })?);
    }
    Ok(colours)
}

fn slot<'a>(colours: &'a mut Colours, name: &str) -> Option<&'a mut Option<Color>> {
    Some(match name {
        "text" => &mut colours.text,
        "background" => &mut colours.background,
        "label" => &mut colours.label,
        "focus" => &mut colours.focus,
        "ok" => &mut colours.ok,
        "warn" => &mut colours.warn,
        "crit" => &mut colours.crit,
        "data" => &mut colours.data,
        "selected" => &mut colours.selected,
        "selected_background" => &mut colours.selected_background,
        "badge" => &mut colours.badge,
        "badge_background" => &mut colours.badge_background,
        _ => return None,
    })
}

fn colour(value: &toml::Value) -> Option<Color> {
    match value {
        toml::Value::Integer(number) => u8::try_from(*number).ok().map(Color::Indexed),
        toml::Value::String(text) => {
            if text == "default" {
                return Some(Color::Reset);
            }
            if let Some(hex) = text.strip_prefix('#') {
                if hex.len() != 6 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return None;
                }
                let number = u32::from_str_radix(hex, 16).ok()?;
                let [_, r, g, b] = number.to_be_bytes();
                return Some(Color::Rgb(r, g, b));
            }
            named(text).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::{Modifier, Style};

    use super::*;
    use crate::tui::view::theme::{Role, Theme};

    #[test]
    fn a_theme_changes_the_slots_that_it_names() {
        let own = parse(
            "base = \"safe\"\nok = \"bright-green\"\nwarn = 214\ncrit = \"#ff5F00\"\nlabel = \"default\"\n",
        )
        .unwrap();
        let theme = Theme {
            colour: true,
            palette: Palette::Own(own),
            context: None,
        };
        assert_eq!(theme.style(Role::Ok).fg, Some(Color::LightGreen));
        assert_eq!(theme.style(Role::Warn).fg, Some(Color::Indexed(214)));
        assert_eq!(theme.style(Role::Crit).fg, Some(Color::Rgb(255, 95, 0)));
        assert_eq!(theme.style(Role::Label).fg, Some(Color::Reset));
        // As in the theme below.
        assert_eq!(theme.style(Role::Data).fg, Some(Color::Blue));
        assert_eq!(
            theme.style(Role::Selected),
            Style::new().add_modifier(Modifier::REVERSED)
        );
        // NO_COLOR wins.
        let mono = Theme {
            colour: false,
            ..theme
        };
        for role in [
            Role::Plain,
            Role::Ok,
            Role::Warn,
            Role::Crit,
            Role::Selected,
            Role::Badge,
            Role::Context,
        ] {
            assert_eq!((mono.style(role).fg, mono.style(role).bg), (None, None));
        }
    }

    #[test]
    fn every_slot_can_be_set() {
        for (name, _) in SLOTS {
            let own = parse(&format!("{name} = 99\n")).unwrap();
            assert_ne!(own, Palette::Default.colours(), "{name}");
        }
        let selected = parse("selected_background = \"blue\"\n").unwrap();
        let theme = Theme {
            colour: true,
            palette: Palette::Own(selected),
            context: None,
        };
        assert_eq!(theme.style(Role::Selected), Style::new().bg(Color::Blue));
    }

    #[test]
    fn what_is_wrong_names_its_key() {
        for (text, said) in [
            ("wran = 3", "wran: there is no such slot"),
            ("warn = 256", "warn: 256 is no colour"),
            ("warn = \"orange\"", "warn: \"orange\" is no colour"),
            ("warn = \"#12345\"", "warn: \"#12345\" is no colour"),
            ("warn = \"#+12345\"", "warn: \"#+12345\" is no colour"),
            ("warn = [1]", "warn: [1] is no colour"),
            ("base = \"mono\"", "base: \"mono\" is no built-in theme"),
            ("warn = ", "is not valid TOML"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
