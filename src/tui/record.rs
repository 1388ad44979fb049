//! The series of the dashboard on disk, so that a later one begins with them: `DIR/CONTEXT.jsonl`, and the file before it
//! with `.1` behind the name.
//!
//! A line holds the values of one moment. Each file has at most [`LONGEST`] bytes; a line that is torn or strange is
//! skipped. A thread of its own writes: a disk that is full is told of, one that is slow loses points; neither stops anything.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::history::{POINTS, Series};
use super::model::Model;
use crate::client::snapshot::BrokerId;

/// Longest file, bytes: there are two.
pub const LONGEST: u64 = 4 << 20;
/// What is older than this when a dashboard starts is not shown.
const OLDEST_MS: u64 = 24 * 3600 * 1000;
/// Bytes of a context's name in the name of its file.
const LONGEST_NAME: usize = 64;
/// Series that are taken over at most.
const TRACKS: usize = 8_000;
/// Texts that wait for the disk; beyond, points are lost.
const WAITING: usize = 8;
/// How long the end of a dashboard waits for the disk.
const LINGER: Duration = Duration::from_secs(1);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(60);

/// Which series.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Track {
    /// Messages a second stored, all brokers.
    In,
    /// Messages a second handed out, all brokers.
    Out,
    /// Lag of all groups.
    Lag,
    /// Messages a second stored by one broker.
    Put(BrokerId),
    /// Messages a second handed out by one broker.
    Get(BrokerId),
    /// Messages a second stored in a topic.
    Topic(String),
    /// Lag of a group.
    Group(String),
}

/// Points of earlier sessions by series, oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded(BTreeMap<Track, Vec<(u64, f64)>>);

impl Recorded {
    /// Takes the points of one series out.
    pub fn take(&mut self, track: &Track) -> Vec<(u64, f64)> {
        self.0.remove(track).unwrap_or_default()
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads lines; what is no line of ours, or of a time out of `range`, epoch ms, is skipped: what is of the future, by a
    /// clock that was put right since, would keep everything before it from being recorded.
    pub fn read(&mut self, text: &str, range: RangeInclusive<u64>) {
        for line in text.lines() {
            let Ok(moment) = serde_json::from_str::<Moment>(line) else {
                continue;
            };
            if !range.contains(&moment.at) {
                continue;
            }
            for (track, value) in moment.values {
                if !value.is_finite() || (self.0.len() >= TRACKS && !self.0.contains_key(&track)) {
                    continue;
                }
                let points = self.0.entry(track).or_default();
                if points.last().is_none_or(|(at, _)| *at < moment.at) {
                    points.push((moment.at, value));
                }
                // Twice as many before the oldest half goes, so that it goes seldom.
                if points.len() >= 2 * POINTS {
                    points.drain(..POINTS);
                }
            }
        }
    }
}

/// One line: a time, epoch ms, and the values of then.
#[derive(Debug, Default)]
struct Moment {
    at: u64,
    values: Vec<(Track, f64)>,
}

/// How a line is written: a name of few letters for each kind of series.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Line {
    t: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#in: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lag: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    put: Vec<(String, String, i64, f64)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    get: Vec<(String, String, i64, f64)>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    topics: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    groups: BTreeMap<String, f64>,
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let line = Line::deserialize(from)?;
        let broker = |(cluster, name, id, value)| (BrokerId { cluster, name, id }, value);
        let mut values: Vec<(Track, f64)> = Vec::new();
        values.extend(line.r#in.map(|v| (Track::In, v)));
        values.extend(line.out.map(|v| (Track::Out, v)));
        values.extend(line.lag.map(|v| (Track::Lag, v)));
        let put = line.put.into_iter().map(broker);
        values.extend(put.map(|(id, v)| (Track::Put(id), v)));
        let get = line.get.into_iter().map(broker);
        values.extend(get.map(|(id, v)| (Track::Get(id), v)));
        values.extend(line.topics.into_iter().map(|(name, v)| (Track::Topic(name), v)));
        values.extend(line.groups.into_iter().map(|(name, v)| (Track::Group(name), v)));
        Ok(Self { at: line.t, values })
    }
}

/// What was written of each series.
#[derive(Debug, Default)]
pub struct Marks(HashMap<Track, u64>);

impl Marks {
    /// The lines of what is new in `model`.
    pub fn lines(&mut self, model: &Model) -> String {
        let mut moments: BTreeMap<u64, Line> = BTreeMap::new();
        let mut present: usize = 0;
        for (track, series) in tracks(model) {
            present += 1;
            let Some((newest, _)) = series.points().next_back() else {
                continue;
            };
            let written = self.0.get(&track).copied().unwrap_or(0);
            if newest <= written {
                continue;
            }
            let fresh: Vec<(u64, f64)> = series
                .points()
                .rev()
                .take_while(|(at, _)| *at > written)
                .collect();
            for (at, value) in fresh {
                let line = moments.entry(at).or_default();
                line.t = at;
                match &track {
                    Track::In => line.r#in = Some(value),
                    Track::Out => line.out = Some(value),
                    Track::Lag => line.lag = Some(value),
                    Track::Put(id) => line.put.push((id.cluster.clone(), id.name.clone(), id.id, value)),
                    Track::Get(id) => line.get.push((id.cluster.clone(), id.name.clone(), id.id, value)),
                    Track::Topic(name) => drop(line.topics.insert(name.clone(), value)),
                    Track::Group(name) => drop(line.groups.insert(name.clone(), value)),
                }
            }
            self.0.insert(track, newest);
        }
        // Topics and groups that are gone are forgotten, all at once and seldom.
        if self.0.len() > 2 * present + 64 {
            let known: HashSet<Track> = tracks(model).map(|(track, _)| track).collect();
            self.0.retain(|track, _| known.contains(track));
        }
        let mut text = String::new();
        for line in moments.values() {
            // Numbers and names always serialize; infinite values are not in a series.
            if let Ok(line) = serde_json::to_string(line) {
                text.push_str(&line);
                text.push('\n');
            }
        }
        text
    }

    /// What earlier sessions wrote is not written again.
    pub fn know(&mut self, recorded: &Recorded) {
        for (track, points) in &recorded.0 {
            if let Some((at, _)) = points.last() {
                self.0.insert(track.clone(), *at);
            }
        }
    }
}

fn tracks(model: &Model) -> impl Iterator<Item = (Track, &Series)> {
    let totals = [
        (Track::In, &model.put),
        (Track::Out, &model.get),
        (Track::Lag, &model.lag),
    ];
    let brokers = model.broker_series.iter().flat_map(|(id, series)| {
        [
            (Track::Put(id.clone()), &series.put),
            (Track::Get(id.clone()), &series.get),
        ]
    });
    let topics = model.topic_series.iter();
    let groups = model.group_series.iter();
    totals
        .into_iter()
        .chain(brokers)
        .chain(topics.map(|(name, series)| (Track::Topic(name.clone()), series)))
        .chain(groups.map(|(name, series)| (Track::Group(name.clone()), series)))
}

/// The file of a context in `dir`: signs that a name of a file should not have are written as numbers, and a name that
/// is cut has a checksum behind it.
pub fn file_of(dir: &Path, context: &str) -> PathBuf {
    let mut name = String::new();
    for byte in context.bytes().take(LONGEST_NAME) {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || (byte == b'.' && !name.is_empty()) {
            name.push(char::from(byte));
        } else {
            // A String takes everything.
            let _ = write!(name, "%{byte:02X}");
        }
    }
    if context.len() > LONGEST_NAME {
        let _ = write!(name, "-{:08x}", crc32fast::hash(context.as_bytes()));
    }
    dir.join(format!("{name}.jsonl"))
}

fn earlier(path: &Path) -> PathBuf {
    path.with_extension("jsonl.1")
}

/// Reads what earlier sessions left, as far as it is not too old at `now_ms`.
pub fn load(path: &Path, now_ms: i64) -> std::io::Result<Recorded> {
    let now = u64::try_from(now_ms).unwrap_or(0);
    let mut recorded = Recorded::default();
    for path in [earlier(path), path.to_owned()] {
        let mut bytes = Vec::new();
        match File::open(&path) {
            // Another program may have made it longer than we do.
            Ok(file) => file.take(2 * LONGEST).read_to_end(&mut bytes)?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        recorded.read(
            &String::from_utf8_lossy(&bytes),
            now.saturating_sub(OLDEST_MS)..=now,
        );
    }
    Ok(recorded)
}

/// Appends to the file, and begins another one when it is long enough. It is opened for each text: another dashboard may
/// have begun another file meanwhile, or made this one longer.
#[derive(Debug)]
struct Writer {
    path: PathBuf,
}

impl Writer {
    fn write(&self, text: &str) -> std::io::Result<()> {
        let (mut file, mut length) = self.open()?;
        if length > 0 && length + text.len() as u64 > LONGEST {
            drop(file);
            std::fs::rename(&self.path, earlier(&self.path))?;
            (file, length) = self.open()?;
        }
        // One call, so that the lines of two dashboards do not mix.
        let mut lines = String::with_capacity(text.len() + 1);
        if is_torn(&mut file, length)? {
            lines.push('\n');
        }
        lines.push_str(text);
        file.write_all(lines.as_bytes())
    }

    fn open(&self) -> std::io::Result<(File, u64)> {
        if let Some(dir) = self.path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&self.path)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    }
}

/// The last line has no end.
fn is_torn(file: &mut File, length: u64) -> std::io::Result<bool> {
    if length == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(length - 1))?;
    file.read_exact(&mut last)?;
    Ok(last != [b'\n'])
}

/// Tells whether the file can be written to, before anything depends on it.
pub fn prepare(path: &Path) -> std::io::Result<()> {
    let path = path.to_owned();
    Writer { path }.open().map(drop)
}

/// The thread that writes. When this is dropped, what it has is still written, for at most [`LINGER`].
#[derive(Debug)]
pub struct Recorder {
    lines: Option<SyncSender<String>>,
    over: Receiver<()>,
    marks: Marks,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Without a sender the thread ends once nothing waits, and drops its own.
        self.lines = None;
        let _ = self.over.recv_timeout(LINGER);
    }
}

impl Recorder {
    /// Starts to write to `path`; `tell` hears of failures and of their end.
    pub fn start(
        path: PathBuf,
        recorded: &Recorded,
        tell: impl Fn(String) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (lines, texts) = sync_channel(WAITING);
        let (ends, over) = sync_channel(0);
        let work = move || {
            write_all(&Writer { path }, &texts, &tell);
            drop(ends);
        };
        std::thread::Builder::new()
            .name("rmq-record".into())
            .spawn(work)?;
        let mut marks = Marks::default();
        marks.know(recorded);
        Ok(Self {
            lines: Some(lines),
            over,
            marks,
        })
    }

    /// Has what is new in `model` written.
    pub fn record(&mut self, model: &Model) {
        let text = self.marks.lines(model);
        if text.is_empty() {
            return;
        }
        if let Some(lines) = &self.lines {
            match lines.try_send(text) {
                // A disk that is behind loses points.
                Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
    }
}

fn write_all(writer: &Writer, texts: &Receiver<String>, tell: &impl Fn(String)) {
    let mut failed_at: Option<Instant> = None;
    while let Ok(text) = texts.recv() {
        if failed_at.is_some_and(|at| at.elapsed() < PAUSE) {
            continue;
        }
        match writer.write(&text) {
            Ok(()) => {
                if failed_at.take().is_some() {
                    tell(format!("recording goes on in {}", writer.path.display()));
                }
            }
            Err(e) => {
                if failed_at.replace(Instant::now()).is_none() {
                    tell(format!(
                        "nothing is recorded: {}: {e}; tried again every {} s",
                        writer.path.display(),
                        PAUSE.as_secs()
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(at: &[u64]) -> Model {
        let mut model = Model::default();
        for &at in at {
            model.put.push(at, at as f64 / 2.0);
            model.topic_series.entry("订单".into()).or_default().push(at, 7.5);
            let id = BrokerId {
                cluster: "c/1".into(),
                name: "b".into(),
                id: 0,
            };
            model.broker_series.entry(id).or_default().put.push(at + 1, 3.0);
        }
        model
    }

    #[test]
    fn what_is_written_is_read_and_written_once() {
        let mut marks = Marks::default();
        let mut text = marks.lines(&model(&[1000, 3000]));
        assert_eq!(text.lines().count(), 4, "{text}");
        assert_eq!(marks.lines(&model(&[1000, 3000])), "");
        text += &marks.lines(&model(&[1000, 3000, 5000]));
        let mut recorded = Recorded::default();
        recorded.read(&text, 3000..=9000);
        assert_eq!(recorded.take(&Track::In), [(3000, 1500.0), (5000, 2500.0)]);
        assert_eq!(
            recorded.take(&Track::Topic("订单".into())),
            [(3000, 7.5), (5000, 7.5)]
        );
        let id = BrokerId {
            cluster: "c/1".into(),
            name: "b".into(),
            id: 0,
        };
        assert_eq!(recorded.take(&Track::Put(id)), [(3001, 3.0), (5001, 3.0)]);
        assert!(recorded.is_empty());
    }

    #[test]
    fn torn_and_strange_lines_are_skipped() {
        let text = "{\"t\":1000,\"in\":1.0}\n{\"t\":2000,\"in\":2.0,\"la\n\nnonsense\n[1]\n{\"t\":3000,\"in\":\"x\"}\n\
                    {\"t\":900,\"in\":9.0}\n{\"t\":4000,\"in\":4.0,\"new\":{}}\n{\"t\":5000,\"in\":5.";
        let mut recorded = Recorded::default();
        recorded.read(text, 0..=9000);
        assert_eq!(recorded.take(&Track::In), [(1000, 1.0), (4000, 4.0)]);
    }

    #[test]
    fn a_file_is_bounded_and_goes_on_after_a_torn_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = file_of(dir.path(), "PROD 上海/../x");
        assert_eq!(path.parent(), Some(dir.path()));
        std::fs::write(&path, "{\"t\":1000,\"in\":1.0}\n{\"t\":2000,\"i").unwrap();
        let writer = Writer { path: path.clone() };
        writer.write("{\"t\":3000,\"in\":3.0}\n").unwrap();
        let points = |path: &Path| load(path, 10_000).unwrap().take(&Track::In);
        assert_eq!(points(&path), [(1000, 1.0), (3000, 3.0)]);
        // Two files of the longest size, whatever is written.
        for i in 0..400u64 {
            let at = 4000 + i;
            let filler = "x".repeat(50_000);
            writer
                .write(&format!("{{\"t\":{at},\"in\":1.0,\"f\":\"{filler}\"}}\n"))
                .unwrap();
        }
        let size = |path: &Path| path.metadata().unwrap().len();
        assert!(size(&path) <= LONGEST && size(&earlier(&path)) <= LONGEST);
        assert!(size(&path) + size(&earlier(&path)) > LONGEST);
        let kept = points(&path);
        assert_eq!(kept.last(), Some(&(4399, 1.0)));
        assert!((80..2 * POINTS).contains(&kept.len()), "{}", kept.len());
        // What is older than a day is not shown.
        assert_eq!(load(&path, 4000 + 48 * 3600 * 1000).unwrap(), Recorded::default());
    }

    #[test]
    fn two_dashboards_and_a_name_that_is_taken_do_not_break_the_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = file_of(dir.path(), "c");
        let size = |path: &Path| path.metadata().unwrap().len();
        let line = |at: u64| format!("{{\"t\":{at},\"in\":1.0,\"f\":\"{}\"}}\n", "x".repeat(500_000));
        let [one, other] = [0, 1].map(|_| Writer { path: path.clone() });
        for i in 0..40 {
            if i % 2 == 0 { &one } else { &other }
                .write(&line(1000 + i))
                .unwrap();
            assert!(size(&path) <= LONGEST, "{i}");
        }
        let points = load(&path, 2000).unwrap().take(&Track::In);
        let n = points.len() as u64;
        assert!(
            n > 8 && points.iter().map(|(at, _)| *at).eq(1040 - n..1040),
            "{points:?}"
        );
        // No empty line is added to a whole one.
        assert!(!std::fs::read_to_string(&path).unwrap().contains("\n\n"));
        // The file before cannot be replaced: nothing is appended beyond the bound, however often it is tried.
        std::fs::remove_file(earlier(&path)).unwrap();
        std::fs::create_dir(earlier(&path)).unwrap();
        let failed = (0..40).filter(|i| one.write(&line(2000 + i)).is_err()).count();
        assert!(failed > 30 && size(&path) <= LONGEST, "{failed}, {}", size(&path));
    }

    #[test]
    fn names_that_begin_alike_have_files_of_their_own() {
        let dir = Path::new("/d");
        let names = ["x".repeat(64), "x".repeat(65), format!("{}y", "x".repeat(64))];
        let files = names.clone().map(|name| file_of(dir, &name));
        assert!(files[0] != files[1] && files[1] != files[2], "{files:?}");
        assert_eq!(files[0], dir.join(format!("{}.jsonl", names[0])));
    }

    #[test]
    fn a_time_of_the_future_does_not_stop_the_recording() {
        let dir = tempfile::tempdir().unwrap();
        let path = file_of(dir.path(), "c");
        std::fs::write(&path, "{\"t\":1000,\"in\":1.0}\n{\"t\":900000,\"in\":2.0}\n").unwrap();
        let recorded = load(&path, 5000).unwrap();
        let mut recorder = Recorder::start(path.clone(), &recorded, |_| {}).unwrap();
        recorder.record(&model(&[1000, 3000]));
        // The end waits for what there is to write.
        drop(recorder);
        let points = load(&path, 5000).unwrap().take(&Track::In);
        assert_eq!(points, [(1000, 1.0), (3000, 1500.0)]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told_once_and_stops_nothing() {
        let (told, heard) = std::sync::mpsc::channel();
        let tell = move |text| told.send(text).unwrap();
        let full = PathBuf::from("/dev/full");
        let mut recorder = Recorder::start(full, &Recorded::default(), tell).unwrap();
        for i in 1..20 {
            recorder.record(&model(&[i * 1000]));
        }
        let said = heard.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(
            said.starts_with("nothing is recorded: /dev/full: No space left"),
            "{said}"
        );
        drop(recorder);
        assert!(heard.recv_timeout(Duration::from_secs(60)).is_err(), "told twice");
    }
}
