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

/// A set of styles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// Use colours.
    pub colour: bool,
}

impl Theme {
    /// The style of a role.
    pub fn style(self, role: Role) -> Style {
        let plain = Style::new();
        if self.colour {
            match role {
                Role::Plain => plain,
                Role::Label => plain.fg(Color::Cyan),
                Role::Focus => plain.fg(Color::Blue).add_modifier(Modifier::BOLD),
                Role::Ok => plain.fg(Color::Green),
                Role::Warn => plain.fg(Color::Yellow),
                Role::Crit => plain.fg(Color::Red).add_modifier(Modifier::BOLD),
                Role::Data => plain.fg(Color::Blue),
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
