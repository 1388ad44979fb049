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
    screen: Screen,
    name: &'static str,
    /// Other names that mean it.
    aliases: &'static [&'static str],
    tab: Option<&'static str>,
    /// Where `esc` leads.
    parent: Screen,
    panes: &'static [Pane],
    first_focus: Pane,
}

const ENTRIES: &[Entry] = &[
    Entry {
        screen: Screen::Overview,
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
    Entry {
        screen: Screen::Heartbeats,
        name: "heartbeats",
        aliases: &["beats", "2"],
        tab: Some("2 Beats"),
        parent: Screen::Overview,
        panes: &[Pane::NameServers, Pane::Registrations, Pane::Log],
        first_focus: Pane::Registrations,
    },
    Entry {
        screen: Screen::Brokers,
        name: "brokers",
        aliases: &["3"],
        tab: Some("3 Brokers"),
        parent: Screen::Overview,
        panes: &[Pane::Brokers],
        first_focus: Pane::Brokers,
    },
    Entry {
        screen: Screen::Broker,
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
    Entry {
        screen: Screen::Topics,
        name: "topics",
        aliases: &["4"],
        tab: Some("4 Topics"),
        parent: Screen::Overview,
        panes: &[Pane::Topics],
        first_focus: Pane::Topics,
    },
    Entry {
        screen: Screen::Topic,
        name: "topic",
        aliases: &[],
        tab: None,
        parent: Screen::Topics,
        panes: &[Pane::TopicQueues, Pane::Scaling, Pane::TopicGroups],
        first_focus: Pane::TopicQueues,
    },
    Entry {
        screen: Screen::Groups,
        name: "groups",
        aliases: &["5"],
        tab: Some("5 Groups"),
        parent: Screen::Overview,
        panes: &[Pane::Groups],
        first_focus: Pane::Groups,
    },
    Entry {
        screen: Screen::Group,
        name: "group",
        aliases: &[],
        tab: None,
        parent: Screen::Groups,
        panes: &[Pane::GroupQueues, Pane::GroupClients, Pane::GroupChart],
        first_focus: Pane::GroupQueues,
    },
    Entry {
        screen: Screen::Messages,
        name: "messages",
        aliases: &["msgs", "6"],
        tab: Some("6 Msgs"),
        parent: Screen::Overview,
        panes: &[Pane::Messages, Pane::Detail, Pane::Body, Pane::Way],
        first_focus: Pane::Messages,
    },
    Entry {
        screen: Screen::Dead,
        name: "dlq",
        aliases: &["dead", "7"],
        tab: Some("7 DLQ"),
        parent: Screen::Overview,
        panes: &[Pane::DeadGroups, Pane::Letters, Pane::Plan],
        first_focus: Pane::DeadGroups,
    },
    Entry {
        screen: Screen::Offsets,
        name: "offsets",
        aliases: &["8"],
        tab: Some("8 Offsets"),
        parent: Screen::Overview,
        panes: &[Pane::Positions, Pane::Preview, Pane::Effect],
        first_focus: Pane::Positions,
    },
    Entry {
        screen: Screen::Store,
        name: "store",
        aliases: &["9"],
        tab: Some("9 Store"),
        parent: Screen::Overview,
        panes: &[Pane::StoreLog, Pane::StoreTree, Pane::StoreHex],
        first_focus: Pane::StoreLog,
    },
    Entry {
        screen: Screen::StoreQueues,
        name: "queues",
        aliases: &[],
        tab: None,
        parent: Screen::Store,
        panes: &[Pane::StoreEntries, Pane::StoreQueueList, Pane::StorePositions],
        first_focus: Pane::StoreEntries,
    },
    Entry {
        screen: Screen::StoreIndex,
        name: "index",
        aliases: &[],
        tab: None,
        parent: Screen::Store,
        panes: &[
            Pane::StoreFiles,
            Pane::StoreHeat,
            Pane::StoreLookup,
            Pane::StoreLengths,
        ],
        first_focus: Pane::StoreFiles,
    },
    Entry {
        screen: Screen::StoreChecks,
        name: "verify",
        aliases: &[],
        tab: None,
        parent: Screen::Store,
        panes: &[Pane::StoreFindings, Pane::StoreCheckpoint, Pane::StoreVerify],
        first_focus: Pane::StoreFindings,
    },
];

impl Screen {
    /// Every screen.
    pub fn all() -> impl Iterator<Item = Self> {
        ENTRIES.iter().map(|e| e.screen)
    }

    /// Screens with a tab, in their order, with its text.
    pub fn tabs() -> impl Iterator<Item = (Self, &'static str)> {
        ENTRIES.iter().filter_map(|e| Some((e.screen, e.tab?)))
    }

    fn entry(self) -> &'static Entry {
        ENTRIES
            .iter()
            .find(|e| e.screen == self)
            .expect("every screen has an entry: a test goes through them")
    }

    /// The screen with a tab that a command-line name means.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let means = |e: &&Entry| e.tab.is_some() && (e.name == name || e.aliases.contains(&name.as_str()));
        ENTRIES.iter().find(means).map(|e| e.screen)
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
    StoreLog,
    StoreHex,
    StoreTree,
    StoreEntries,
    StoreQueueList,
    StorePositions,
    StoreFiles,
    StoreHeat,
    StoreLookup,
    StoreLengths,
    StoreCheckpoint,
    StoreVerify,
    StoreFindings,
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
        for screen in Screen::all() {
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
