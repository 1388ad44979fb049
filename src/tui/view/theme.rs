//! Styles by role. Only the 16 ANSI colours, so that the terminal's own palette decides; `mono` has none at all.

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
    /// The badge with the context's name.
    Badge,
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
}

impl Palette {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Default, Self::Light, Self::Safe, Self::Mono];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Light => "light",
            Self::Safe => "safe",
            Self::Mono => "mono",
        }
    }

    /// The one of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Label, good, warning, critical, quantity.
    const fn colours(self) -> [Color; 5] {
        use Color::{Blue, Cyan, Green, Magenta, Red, Yellow};
        match self {
            Self::Default | Self::Mono => [Cyan, Green, Yellow, Red, Blue],
            Self::Light => [Blue, Green, Magenta, Red, Blue],
            Self::Safe => [Cyan, Blue, Yellow, Magenta, Blue],
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
}

impl Theme {
    /// The style of a role.
    pub fn style(self, role: Role) -> Style {
        let plain = Style::new();
        if self.colour {
            let [label, ok, warn, crit, data] = self.palette.colours();
            match role {
                Role::Plain => plain,
                Role::Label => plain.fg(label),
                Role::Focus => plain.fg(data).add_modifier(Modifier::BOLD),
                Role::Ok => plain.fg(ok),
                Role::Warn => plain.fg(warn),
                Role::Crit => plain.fg(crit).add_modifier(Modifier::BOLD),
                Role::Data => plain.fg(data),
                Role::Selected => plain.add_modifier(Modifier::REVERSED),
                Role::Badge => plain.fg(Color::Black).bg(Color::Cyan),
            }
        } else {
            match role {
                Role::Plain | Role::Label | Role::Ok | Role::Data => plain,
                Role::Focus | Role::Warn | Role::Crit => plain.add_modifier(Modifier::BOLD),
                Role::Selected | Role::Badge => plain.add_modifier(Modifier::REVERSED),
            }
        }
    }
}
