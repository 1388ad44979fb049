//! Styles by role. The built-in themes have only the 16 ANSI colours, so that the terminal's own palette decides; `mono` has
//! none at all.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};

/// What a piece of text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Ordinary text.
    Plain,
    /// Column heads, labels.
    Label,
    /// Pane titles and box lines of the focused pane.
    Focus,
    /// Good.
    Ok,
    /// Needs a look.
    Warn,
    /// Needs hands.
    Crit,
    /// Bars, series and other quantities.
    Data,
    /// The selected row.
    Selected,
    /// A badge.
    Badge,
    /// The badge with the context's name.
    Context,
}

/// A choice of colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Palette {
    /// Green, yellow, red.
    #[default]
    Default,
    /// For a light background.
    Light,
    /// For eyes that do not tell red from green: blue, yellow, magenta.
    Safe,
    /// None: bold and reverse.
    Mono,
    /// The operator's own.
    Own(Colours),
}

/// A colour by slot; `None` leaves the terminal's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Colours {
    pub text: Option<Color>,
    pub background: Option<Color>,
    pub label: Option<Color>,
    pub focus: Option<Color>,
    pub ok: Option<Color>,
    pub warn: Option<Color>,
    pub crit: Option<Color>,
    pub data: Option<Color>,
    pub selected: Option<Color>,
    pub selected_background: Option<Color>,
    pub badge: Option<Color>,
    pub badge_background: Option<Color>,
}

impl Palette {
    /// Every built-in one.
    pub const ALL: [Self; 4] = [Self::Default, Self::Light, Self::Safe, Self::Mono];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Light => "light",
            Self::Safe => "safe",
            Self::Mono => "mono",
            Self::Own(_) => "own",
        }
    }

    /// The built-in one of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Its colours.
    pub fn colours(self) -> Colours {
        use Color::{Black, Blue, Cyan, Green, Magenta, Red, Yellow};
        let [label, ok, warn, crit, data] = match self {
            Self::Default | Self::Mono => [Cyan, Green, Yellow, Red, Blue],
            Self::Light => [Blue, Green, Magenta, Red, Blue],
            Self::Safe => [Cyan, Blue, Yellow, Magenta, Blue],
            Self::Own(colours) => return colours,
        };
        Colours {
            label: Some(label),
            focus: Some(data),
            ok: Some(ok),
            warn: Some(warn),
            crit: Some(crit),
            data: Some(data),
            badge: Some(Black),
            badge_background: Some(Cyan),
            ..Colours::default()
        }
    }
}

/// A set of styles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// Use colours.
    pub colour: bool,
    /// Which ones.
    pub palette: Palette,
    /// The colour of the context, behind its name.
    pub context: Option<Color>,
}

/// What can be read on a colour.
const fn on(colour: Color) -> Color {
    match colour {
        Color::Black | Color::Red | Color::Blue | Color::Magenta | Color::DarkGray => Color::White,
        _ => Color::Black,
    }
}

impl Theme {
    /// The style of a role.
    pub fn style(self, role: Role) -> Style {
        let plain = Style::new();
        if self.colour {
            let colours = self.palette.colours();
            let of = |fg: Option<Color>, bg: Option<Color>| Style { fg, bg, ..plain };
            match role {
                Role::Plain => plain,
                Role::Label => of(colours.label, None),
                Role::Focus => of(colours.focus, None).add_modifier(Modifier::BOLD),
                Role::Ok => of(colours.ok, None),
                Role::Warn => of(colours.warn, None),
                Role::Crit => of(colours.crit, None).add_modifier(Modifier::BOLD),
                Role::Data => of(colours.data, None),
                Role::Selected => match (colours.selected, colours.selected_background) {
                    (None, None) => plain.add_modifier(Modifier::REVERSED),
                    (fg, bg) => of(fg, bg),
                },
                Role::Badge => of(colours.badge, colours.badge_background),
                Role::Context => match self.context {
                    Some(colour) => of(Some(on(colour)), Some(colour)),
                    None => of(colours.badge, colours.badge_background),
                },
            }
        } else {
            match role {
                Role::Plain | Role::Label | Role::Ok | Role::Data => plain,
                Role::Focus | Role::Warn | Role::Crit => plain.add_modifier(Modifier::BOLD),
                Role::Selected | Role::Badge | Role::Context => plain.add_modifier(Modifier::REVERSED),
            }
        }
    }

    /// Gives what has no colour of its own those of ordinary text, where the theme has some.
    pub fn ground(self, buffer: &mut Buffer) {
        let Colours { text, background, .. } = self.palette.colours();
        if !self.colour || (text, background) == (None, None) {
            return;
        }
        for cell in &mut buffer.content {
            if let (Color::Reset, Some(text)) = (cell.fg, text) {
                cell.fg = text;
            }
            if let (Color::Reset, Some(background)) = (cell.bg, background) {
                cell.bg = background;
            }
        }
    }
}
