//! A change from its command line to its report: what the dialog knows, and what a key does to it. Pure.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::deed::{Deed, DeedTold, Level, Rehearsal, Report};
use super::form::Form;
use super::input::Input;
use crate::client::scale::Progress;

/// Lines of progress that are kept.
const LINES: usize = 200;

/// Where a change stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// What it would do is being found out.
    Rehearsing,
    /// Everything is as wanted already.
    Nothing,
    /// It cannot be done.
    Impossible(String),
    /// The operator decides.
    Planned(Box<Rehearsal>),
    /// It is being done.
    Running(Box<Rehearsal>),
    /// It is over.
    Done(Box<Report>),
}

/// A change.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// Number, unique in this session.
    pub id: u64,
    /// The command line.
    pub deed: Deed,
    /// Where it stands.
    pub stage: Stage,
    /// When it was asked for, epoch ms.
    pub at_ms: i64,
    /// The confirmation being typed.
    pub typed: Input,
    /// The focus is on *Apply* and not on *Cancel*.
    pub apply: bool,
    /// First line shown.
    pub scroll: usize,
    /// Progress, oldest first.
    pub lines: Vec<String>,
    /// Where it is, when it is a scaling.
    pub way: Option<Progress>,
    /// A stop was asked for.
    pub stopping: bool,
    /// The form that it was filled in with.
    pub form: Option<Form>,
}

/// What a key in the dialog leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The dialog stays.
    Stay,
    /// It closes; a running change goes on.
    Close,
    /// Carry it out.
    Apply(Box<Rehearsal>),
    /// What was typed is not this text.
    Wrong(String),
    /// Stop it at its next safe place.
    Stop,
    /// Find out anew what it would do.
    Again,
    /// Back to the form, as it was filled in.
    Edit(Form),
    /// Put the command line on the clipboard.
    Copy,
    /// Begin the change that takes this one back.
    Undo(Deed),
}

impl Work {
    /// A change at its beginning.
    pub fn new(id: u64, deed: Deed, at_ms: i64) -> Self {
        Self {
            id,
            deed,
            stage: Stage::Rehearsing,
            at_ms,
            typed: Input::default(),
            apply: false,
            scroll: 0,
            lines: Vec::new(),
            way: None,
            stopping: false,
            form: None,
        }
    }

    /// True while it may change something.
    pub const fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running(_))
    }

    /// Takes in news.
    pub fn told(&mut self, told: DeedTold) {
        match told {
            DeedTold::Planned(answer) if self.stage == Stage::Rehearsing => {
                self.stage = match answer {
                    Ok(Some(rehearsal)) => Stage::Planned(rehearsal),
                    Ok(None) => Stage::Nothing,
                    Err(why) => Stage::Impossible(why),
                };
            }
            DeedTold::Planned(_) => {}
            DeedTold::Line(line) => {
                if self.lines.len() == LINES {
                    self.lines.remove(0);
                }
                self.lines.push(line);
            }
            DeedTold::Way(progress) => self.way = Some(*progress),
            DeedTold::Done(report) => {
                self.stage = Stage::Done(report);
                self.scroll = 0;
            }
        }
    }

    /// The text that must be typed; `None` when a press of *Apply* is enough.
    pub fn wanted_text(&self, context: &str) -> Option<String> {
        let Stage::Planned(rehearsal) = &self.stage else {
            return None;
        };
        match rehearsal.level {
            Level::Apply => None,
            Level::Name => Some(rehearsal.object.clone()),
            Level::NameAndContext => Some(format!("{} {context}", rehearsal.object)),
        }
    }

    /// Takes a key. Nothing but the exact text, or *Apply* with the focus on it, carries a change out.
    pub fn key(&mut self, key: KeyEvent, context: &str) -> Answer {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match (key.code, ctrl) {
            (KeyCode::Esc, _) => return Answer::Close,
            (KeyCode::Char('y'), true) => return Answer::Copy,
            (KeyCode::PageDown, _) => self.scroll += 10,
            (KeyCode::PageUp, _) => self.scroll = self.scroll.saturating_sub(10),
            (KeyCode::Down, _) => self.scroll += 1,
            (KeyCode::Up, _) => self.scroll = self.scroll.saturating_sub(1),
            _ => return self.other_key(key, context),
        }
        Answer::Stay
    }

    fn other_key(&mut self, key: KeyEvent, context: &str) -> Answer {
        let wanted = self.wanted_text(context);
        match (&self.stage, wanted) {
            (Stage::Planned(rehearsal), None) => match key.code {
                KeyCode::Enter if self.apply => Answer::Apply(rehearsal.clone()),
                KeyCode::Enter => Answer::Close,
                KeyCode::Tab | KeyCode::BackTab | KeyCode::Left | KeyCode::Right => {
                    self.apply = !self.apply;
                    Answer::Stay
                }
                KeyCode::Char('y') => Answer::Copy,
                KeyCode::Char('r') => Answer::Again,
                _ => Answer::Stay,
            },
            (Stage::Planned(rehearsal), Some(wanted)) => match key.code {
                KeyCode::Enter if self.typed.text() == wanted => Answer::Apply(rehearsal.clone()),
                KeyCode::Enter => Answer::Wrong(wanted),
                _ => {
                    self.typed.key(key);
                    Answer::Stay
                }
            },
            (Stage::Running(_), _) => match key.code {
                KeyCode::Char('x') => Answer::Stop,
                KeyCode::Char('y') => Answer::Copy,
                _ => Answer::Stay,
            },
            (Stage::Done(report), _) => match key.code {
                KeyCode::Char('u') => undo(report).map_or(Answer::Stay, Answer::Undo),
                KeyCode::Char('y') => Answer::Copy,
                KeyCode::Char('r') if report.failure.is_some() => Answer::Again,
                KeyCode::Enter => Answer::Close,
                _ => Answer::Stay,
            },
            (Stage::Impossible(_) | Stage::Nothing, _) => match key.code {
                KeyCode::Char('e') => self.form.clone().map_or(Answer::Stay, Answer::Edit),
                KeyCode::Char('y') => Answer::Copy,
                KeyCode::Char('r') => Answer::Again,
                KeyCode::Enter => Answer::Close,
                _ => Answer::Stay,
            },
            (Stage::Rehearsing, _) => Answer::Stay,
        }
    }
}

/// The change that takes one back, where it is a single command.
pub fn undo(report: &Report) -> Option<Deed> {
    let words = words(report.undo.as_deref()?)?;
    let (first, rest) = words.split_first()?;
    let single = first == "rmq" && !rest.iter().any(|w| w == "&&");
    single.then(|| Deed::new(without_globals(rest)))
}

/// The dashboard's commands have its own servers: what an undo line says of them would be said twice.
fn without_globals(words: &[String]) -> Vec<String> {
    const WITH_VALUE: [&str; 8] = [
        "-n",
        "--context",
        "--config",
        "--broker-map",
        "--tls-ca",
        "--tls-cert",
        "--tls-key",
        "--via-proxy",
    ];
    const BARE: [&str; 2] = ["--tls", "--tls-insecure"];
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word.as_str()) {
            words.next();
        } else if !BARE.contains(&word.as_str()) {
            kept.push(word.clone());
        }
    }
    kept
}

/// The words of a command line as a shell reads them; `None` when a quote is not closed.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' if !quoted => word.get_or_insert_default().extend(chars.next()),
            ' ' if !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    (!quoted).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::deed::StepLine;

    fn press(work: &mut Work, code: KeyCode) -> Answer {
        work.key(KeyEvent::new(code, KeyModifiers::NONE), "prod")
    }

    fn planned(level: Level) -> Work {
        let mut work = Work::new(1, Deed::new(["topic", "update", "orders", "--perm", "4"]), 0);
        work.told(DeedTold::Planned(Ok(Some(Box::new(Rehearsal {
            action: "update topic orders".into(),
            object: "orders".into(),
            cluster: "c".into(),
            level,
            steps: vec![StepLine {
                target: "broker-a".into(),
                field: "perm".into(),
                before: "6".into(),
                after: "4".into(),
                result: "planned".into(),
                good: true,
            }],
            impact: Vec::new(),
            lines: Vec::new(),
        })))));
        work
    }

    #[test]
    fn a_careless_enter_applies_nothing() {
        let mut work = planned(Level::Apply);
        assert_eq!(press(&mut work, KeyCode::Enter), Answer::Close);
        press(&mut work, KeyCode::Tab);
        assert!(matches!(press(&mut work, KeyCode::Enter), Answer::Apply(_)));
    }

    #[test]
    fn only_the_exact_text_applies() {
        for (level, wanted) in [(Level::Name, "orders"), (Level::NameAndContext, "orders prod")] {
            let mut work = planned(level);
            for c in wanted.chars() {
                assert_eq!(press(&mut work, KeyCode::Enter), Answer::Wrong(wanted.to_owned()));
                press(&mut work, KeyCode::Char(c));
            }
            assert!(matches!(press(&mut work, KeyCode::Enter), Answer::Apply(_)));
            press(&mut work, KeyCode::Char('x'));
            assert_eq!(press(&mut work, KeyCode::Enter), Answer::Wrong(wanted.to_owned()));
        }
    }

    #[test]
    fn an_undo_line_becomes_a_deed_for_the_same_servers() {
        let report = |line: &str| Report {
            undo: Some(line.into()),
            ..Report::default()
        };
        let deed = undo(&report(
            "rmq topic update 'a b' --perm 6 -n 127.0.0.1:9876 --tls --tls-ca /ca.pem",
        ))
        .unwrap();
        assert_eq!(deed.words, ["topic", "update", "a b", "--perm", "6"]);
        assert_eq!(undo(&report("rmq a && rmq b")), None);
        assert_eq!(undo(&report("rmq 'a")), None);
    }

    #[test]
    fn a_late_rehearsal_changes_nothing_that_runs() {
        let mut work = planned(Level::Apply);
        work.told(DeedTold::Planned(Ok(None)));
        assert!(matches!(work.stage, Stage::Planned(_)));
    }
}
