//! What is kept before offsets are moved: the file that an undo reads, and which one that is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Batch, Failure, Session, exit};
use crate::cli::change::Plan;
use crate::cli::context::state_dir;
use crate::cli::quoted;
use crate::client::BrokerAt;
use crate::client::admin::group::is_system;
use crate::client::positions::{Method, Move};
use crate::client::saved_offsets::{Chosen, SavedOffsets};

/// Where the files are.
pub fn dir() -> Option<PathBuf> {
    state_dir().map(|dir| dir.join("offsets"))
}

/// The name of a file about these groups, with the time it was taken at.
pub fn file_name(groups: &BTreeSet<&str>, at: &str) -> String {
    let name = match groups.first() {
        Some(group) if groups.len() == 1 => group.replace(['/', '%'], "_"),
        _ => format!("{}-groups", groups.len()),
    };
    format!("{name}-{at}.json")
}

/// Writes what is about to be moved, as it is now, below the state directory; the file.
pub async fn keep(session: &Session, brokers: &[BrokerAt], moves: &[&Move]) -> Result<PathBuf, Failure> {
    let groups: BTreeSet<&str> = moves.iter().map(|m| m.at.group.as_str()).collect();
    let chosen = Chosen {
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        topic: None,
    };
    let mut saved = session.client.saved_offsets(brokers, &chosen, false).await?;
    let places: BTreeSet<(&str, &str, &str, i32)> = moves
        .iter()
        .map(|m| {
            let at = &m.at;
            (&*at.group, &*at.topic, &*at.broker.id.name, at.queue)
        })
        .collect();
    // What is not moved is not moved back either.
    saved
        .offsets
        .retain(|o| places.contains(&(&*o.group, &*o.topic, &*o.broker, o.queue)));
    saved.name_servers.clone_from(&session.name_servers);
    saved.name_servers.sort();
    let moved: BTreeSet<(&str, &str)> = places.iter().map(|(group, topic, ..)| (*group, *topic)).collect();
    saved.moved = moved
        .into_iter()
        .map(|(group, topic)| (group.into(), topic.into()))
        .collect();
    let unsaved = |why: String| {
        Failure::new(
            exit::PRECONDITION,
            format!("the present offsets could not be kept ({why}); nothing was changed"),
        )
    };
    let dir = dir().ok_or_else(|| unsaved("there is no state directory".into()))?;
    let path = dir.join(file_name(&groups, &saved.taken_at_ms.to_string()));
    crate::replace::replace(&path, saved.text().as_bytes()).map_err(|e| unsaved(e.to_string()))?;
    Ok(path)
}

/// The newest file in a directory that was kept before a move of this group, in this topic where one is named, in this
/// cluster at these name servers: clusters of the same name are many. It has no offsets of a group that had none.
pub fn newest(
    dir: &Path,
    (cluster, name_servers): (&str, &[String]),
    group: &str,
    topic: Option<&str>,
) -> Option<(PathBuf, SavedOffsets)> {
    let mut servers = name_servers.to_vec();
    servers.sort();
    // The time stands at the end of the name: only as many files are read as are newer than the one that fits.
    let taken = |path: &Path| {
        path.file_stem()?
            .to_str()?
            .rsplit('-')
            .next()?
            .parse::<i64>()
            .ok()
    };
    let files = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    let mut files: Vec<(i64, PathBuf)> = files.filter_map(|path| Some((taken(&path)?, path))).collect();
    files.sort_by(|a, b| b.cmp(a));
    files.into_iter().find_map(|(_, path)| {
        let saved = SavedOffsets::parse(&std::fs::read_to_string(&path).ok()?).ok()?;
        let is_of = |(of, at): &(String, String)| of == group && topic.is_none_or(|topic| topic == at);
        let fits = saved.cluster == cluster && saved.name_servers == servers;
        (fits && saved.moved.iter().any(is_of)).then_some((path, saved))
    })
}

/// The command that brings back what is in a backup, for the same servers.
pub fn undo_line(session: &Session, plan: &Plan, path: &Path) -> String {
    let mut undo = format!("rmq offset import {}", quoted(&path.to_string_lossy()));
    if let Some(context) = &session.context {
        undo.push_str(&format!(" --context {}", quoted(context)));
    }
    undo.push_str(&format!(" -n {}", quoted(&session.name_servers.join(";"))));
    if !plan.cluster.is_empty() && !plan.cluster.contains(',') {
        undo.push_str(&format!(" --cluster {}", quoted(&plan.cluster)));
    }
    if plan
        .steps
        .iter()
        .any(|step| is_system(step.field.split(' ').next().unwrap_or_default()))
    {
        undo.push_str(" --force-system");
    }
    // A protected context wants the cluster's name.
    let answer = if session.protected {
        &plan.cluster
    } else {
        &plan.object
    };
    undo.push_str(&format!(" --yes={}", quoted(answer)));
    undo
}

/// What the undo line does not bring back, and what it needs.
pub fn undo_limits(jobs: &[(&Batch, Method, Vec<&Move>)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (batch, method, moves) in jobs {
        let new: Vec<String> = moves
            .iter()
            .filter(|m| m.at.current.is_none())
            .map(|m| m.at.place())
            .collect();
        if !new.is_empty() {
            lines.push(format!(
                "{} had no position in {} {}, which cannot be undone: it keeps the new one",
                batch.group,
                batch.topic,
                new.join(", ")
            ));
        }
        if *method != Method::Server && !batch.audience.clients.is_empty() {
            lines.push(format!(
                "stop group {} before the undo of {}: it commits single offsets, which running clients commit over",
                batch.group, batch.topic
            ));
        }
    }
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::saved_offsets::{API, KIND, SavedOffset};

    #[test]
    fn the_newest_file_of_a_group_is_one_of_its_own_cluster() {
        let dir = tempfile::tempdir().unwrap();
        let keep = |group: &str, topic: &str, servers: &[&str], at: i64| {
            let saved = SavedOffsets {
                api: API.into(),
                kind: KIND.into(),
                taken_at_ms: at,
                cluster: "c".into(),
                name_servers: servers.iter().map(|s| (*s).to_owned()).collect(),
                moved: vec![(group.into(), topic.into())],
                offsets: vec![SavedOffset {
                    group: group.into(),
                    topic: topic.into(),
                    broker: "broker-a".into(),
                    offset: at,
                    ..SavedOffset::default()
                }],
            };
            let name = file_name(&BTreeSet::from([group]), &at.to_string());
            std::fs::write(dir.path().join(name), saved.text()).unwrap();
        };
        keep("CG", "T", &["a:1", "b:1"], 100);
        keep("CG", "U", &["a:1", "b:1"], 200);
        keep("CG-2", "T", &["a:1", "b:1"], 300);
        keep("CG", "T", &["elsewhere:1"], 400);
        std::fs::write(dir.path().join("CG-500.json"), "no json").unwrap();
        let found = |cluster: &str, topic| {
            let here = ["b:1".to_owned(), "a:1".to_owned()];
            newest(dir.path(), (cluster, &here), "CG", topic).map(|(_, saved)| saved.taken_at_ms)
        };
        assert_eq!(found("c", None), Some(200));
        // The last move is the last one also where it gave the first positions: nothing older is taken for it.
        let first = SavedOffsets {
            taken_at_ms: 250,
            cluster: "c".into(),
            name_servers: vec!["a:1".into(), "b:1".into()],
            moved: vec![("CG".into(), "W".into())],
            api: API.into(),
            kind: KIND.into(),
            offsets: Vec::new(),
        };
        std::fs::write(dir.path().join("CG-250.json"), first.text()).unwrap();
        assert_eq!((found("c", None), found("c", Some("W"))), (Some(250), Some(250)));
        assert_eq!(found("c", Some("T")), Some(100));
        assert_eq!(found("c", Some("V")), None);
        assert_eq!(found("d", None), None);
    }
}
