//! Screens, their panes, and where the operator is.

use crate::client::findings::Subject;
use crate::client::snapshot::BrokerId;

/// A screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Screen {
    /// Is anything wrong, and where.
    Overview,
    /// Who registered when with which name server.
    Heartbeats,
    /// All brokers.
    Brokers,
    /// One broker.
    Broker,
    /// All topics.
    Topics,
    /// One topic: its queues, its groups, the plan of its scaling.
    Topic,
    /// All groups and their backlog.
    Groups,
    /// One group: its queues and its clients.
    Group,
    /// Messages of a topic, and the way of one of them.
    Messages,
    /// Dead letters.
    Dead,
    /// Committed offsets, and where they would go.
    Offsets,
    /// Records of a store's commit log.
    Store,
    /// Entries of a store's queues.
    StoreQueues,
    /// A store's index.
    StoreIndex,
    /// A store's checkpoint, and what is wrong with it.
    StoreChecks,
}

/// What each screen is called on the command line, in paths and in the tabs, and its key.
struct Entry {
    name: &'static str,
    /// Other names that mean it.
    aliases: &'static [&'static str],
    tab: Option<&'static str>,
    /// Where `esc` leads.
    parent: Screen,
    panes: &'static [Pane],
    first_focus: Pane,
}

impl Screen {
    /// Every screen, those with a tab in the order of the tabs.
    pub const ALL: [Self; 15] = [
        Self::Overview,
        Self::Heartbeats,
        Self::Brokers,
        Self::Broker,
        Self::Topics,
        Self::Topic,
        Self::Groups,
        Self::Group,
        Self::Messages,
        Self::Dead,
        Self::Offsets,
        Self::Store,
        Self::StoreQueues,
        Self::StoreIndex,
        Self::StoreChecks,
    ];

    /// Screens with a tab, in their order, with its text.
    pub fn tabs() -> impl Iterator<Item = (Self, &'static str)> {
        Self::ALL.into_iter().filter_map(|s| Some((s, s.entry().tab?)))
    }

    const fn entry(self) -> &'static Entry {
        match self {
            Self::Overview => &Entry {
                name: "overview",
                aliases: &["over", "1"],
                tab: Some("1 Over"),
                parent: Screen::Overview,
                panes: &[
                    Pane::Health,
                    Pane::Traffic,
                    Pane::Beats,
                    Pane::TopTopics,
                    Pane::WorstLag,
                ],
                first_focus: Pane::Health,
            },
            Self::Heartbeats => &Entry {
                name: "heartbeats",
                aliases: &["beats", "2"],
                tab: Some("2 Beats"),
                parent: Screen::Overview,
                panes: &[Pane::NameServers, Pane::Registrations, Pane::Log],
                first_focus: Pane::Registrations,
            },
            Self::Brokers => &Entry {
                name: "brokers",
                aliases: &["3"],
                tab: Some("3 Brokers"),
                parent: Screen::Overview,
                panes: &[Pane::Brokers],
                first_focus: Pane::Brokers,
            },
            Self::Broker => &Entry {
                name: "broker",
                aliases: &[],
                tab: None,
                parent: Screen::Brokers,
                panes: &[
                    Pane::Runtime,
                    Pane::Latency,
                    Pane::Flows,
                    Pane::Replication,
                    Pane::Config,
                ],
                first_focus: Pane::Runtime,
            },
            Self::Topics => &Entry {
                name: "topics",
                aliases: &["4"],
                tab: Some("4 Topics"),
                parent: Screen::Overview,
                panes: &[Pane::Topics],
                first_focus: Pane::Topics,
            },
            Self::Topic => &Entry {
                name: "topic",
                aliases: &[],
                tab: None,
                parent: Screen::Topics,
                panes: &[Pane::TopicQueues, Pane::Scaling, Pane::TopicGroups],
                first_focus: Pane::TopicQueues,
            },
            Self::Groups => &Entry {
                name: "groups",
                aliases: &["5"],
                tab: Some("5 Groups"),
                parent: Screen::Overview,
                panes: &[Pane::Groups],
                first_focus: Pane::Groups,
            },
            Self::Group => &Entry {
                name: "group",
                aliases: &[],
                tab: None,
                parent: Screen::Groups,
                panes: &[Pane::GroupQueues, Pane::GroupClients, Pane::GroupChart],
                first_focus: Pane::GroupQueues,
            },
            Self::Messages => &Entry {
                name: "messages",
                aliases: &["msgs", "6"],
                tab: Some("6 Msgs"),
                parent: Screen::Overview,
                panes: &[Pane::Messages, Pane::Detail, Pane::Body, Pane::Way],
                first_focus: Pane::Messages,
            },
            Self::Dead => &Entry {
                name: "dlq",
                aliases: &["dead", "7"],
                tab: Some("7 DLQ"),
                parent: Screen::Overview,
                panes: &[Pane::DeadGroups, Pane::Letters, Pane::Plan],
                first_focus: Pane::DeadGroups,
            },
            Self::Offsets => &Entry {
                name: "offsets",
                aliases: &["8"],
                tab: Some("8 Offsets"),
                parent: Screen::Overview,
                panes: &[Pane::Positions, Pane::Preview, Pane::Effect],
                first_focus: Pane::Positions,
            },
            Self::Store => &Entry {
                name: "store",
                aliases: &["9"],
                tab: Some("9 Store"),
                parent: Screen::Overview,
                panes: &[
                    Pane::Store(Part::Log),
                    Pane::Store(Part::Tree),
                    Pane::Store(Part::Hex),
                ],
                first_focus: Pane::Store(Part::Log),
            },
            Self::StoreQueues => &Entry {
                name: "queues",
                aliases: &[],
                tab: None,
                parent: Screen::Store,
                panes: &[
                    Pane::Store(Part::Entries),
                    Pane::Store(Part::QueueList),
                    Pane::Store(Part::Positions),
                ],
                first_focus: Pane::Store(Part::Entries),
            },
            Self::StoreIndex => &Entry {
                name: "index",
                aliases: &[],
                tab: None,
                parent: Screen::Store,
                panes: &[
                    Pane::Store(Part::Files),
                    Pane::Store(Part::Heat),
                    Pane::Store(Part::Lookup),
                    Pane::Store(Part::Lengths),
                ],
                first_focus: Pane::Store(Part::Files),
            },
            Self::StoreChecks => &Entry {
                name: "verify",
                aliases: &[],
                tab: None,
                parent: Screen::Store,
                panes: &[
                    Pane::Store(Part::Findings),
                    Pane::Store(Part::Checkpoint),
                    Pane::Store(Part::Verify),
                ],
                first_focus: Pane::Store(Part::Findings),
            },
        }
    }

    /// The screen with a tab that a command-line name means.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let means = |e: &Entry| e.name == name || e.aliases.contains(&name.as_str());
        Self::tabs().map(|(screen, _)| screen).find(|s| means(s.entry()))
    }

    /// Its name in a path.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Where `esc` leads.
    pub fn parent(self) -> Self {
        self.entry().parent
    }

    /// The screen whose tab is marked.
    pub fn tab(self) -> Self {
        if self.entry().tab.is_some() {
            self
        } else {
            self.parent()
        }
    }

    /// Panes in the order of `tab`.
    pub fn panes(self) -> &'static [Pane] {
        self.entry().panes
    }

    /// The pane that has the focus at first.
    pub fn first_focus(self) -> Pane {
        self.entry().first_focus
    }
}

/// A part of a screen that can have the focus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Pane {
    Health,
    Traffic,
    Beats,
    TopTopics,
    WorstLag,
    NameServers,
    Registrations,
    Log,
    Brokers,
    Runtime,
    Latency,
    Flows,
    Replication,
    Config,
    Topics,
    TopicQueues,
    Scaling,
    TopicGroups,
    Groups,
    GroupQueues,
    GroupClients,
    GroupChart,
    Messages,
    Detail,
    Body,
    Way,
    DeadGroups,
    Letters,
    Plan,
    Positions,
    Preview,
    Effect,
    /// A part of a store's screens.
    Store(Part),
}

/// A part of the store's screens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Part {
    Log,
    Hex,
    Tree,
    Entries,
    QueueList,
    Positions,
    Files,
    Heat,
    Lookup,
    Lengths,
    Checkpoint,
    Verify,
    Findings,
}

/// A screen and what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Screen.
    pub screen: Screen,
    /// The broker, topic or group that it shows.
    pub about: Option<Subject>,
}

impl Place {
    /// A screen about nothing in particular.
    pub const fn screen(screen: Screen) -> Self {
        Self { screen, about: None }
    }

    /// A screen about something.
    pub const fn about(screen: Screen, subject: Subject) -> Self {
        Self {
            screen,
            about: Some(subject),
        }
    }

    /// The broker it is about.
    pub const fn broker(&self) -> Option<&BrokerId> {
        match &self.about {
            Some(Subject::Broker(id)) => Some(id),
            _ => None,
        }
    }

    /// The topic it is about.
    pub fn topic(&self) -> Option<&str> {
        match &self.about {
            Some(Subject::Topic(name)) => Some(name),
            _ => None,
        }
    }

    /// The group it is about.
    pub fn group(&self) -> Option<&str> {
        match &self.about {
            Some(Subject::Group(name)) => Some(name),
            _ => None,
        }
    }

    /// The way to it from the overview: `overview > topics > orders`.
    pub fn path(&self) -> String {
        let mut names = vec![self.about.as_ref().map_or_else(
            || self.screen.name().to_owned(),
            |subject| match subject {
                Subject::Topic(name) | Subject::Group(name) => name.clone(),
                other => other.to_string(),
            },
        )];
        if self.about.is_some() && self.screen.entry().tab.is_some() {
            names.push(self.screen.name().to_owned());
        }
        let mut at = self.screen;
        while at.parent() != at {
            at = at.parent();
            names.push(at.name().to_owned());
        }
        names.reverse();
        names.join(" > ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_screen_has_an_entry_and_leads_home() {
        for screen in Screen::ALL {
            assert!(screen.panes().contains(&screen.first_focus()), "{screen:?}");
            let home = (0..6).fold(screen, |at, _| at.parent());
            assert_eq!(home, Screen::Overview);
            assert!(screen.tab().entry().tab.is_some());
        }
        assert_eq!(Screen::from_name("beats"), Some(Screen::Heartbeats));
        assert_eq!(Screen::from_name("broker"), None, "which one?");
        assert_eq!(
            Place::about(Screen::Topic, Subject::Topic("orders".into())).path(),
            "overview > topics > orders"
        );
    }
}
