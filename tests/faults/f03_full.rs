//! F3: the disk fills up under load and gets room again: a tmpfs, and an ext4 in a file.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Plan;
use super::audit::{Audit, Findings};
use super::line::Line;
use super::load::{Load, NO_ANSWER, Producers};
use super::server::{Server, Site};
use super::support::{ports, scratch};
use super::wire::Wire;

const TOPIC: &str = "faults";
const QUEUES: i32 = 4;
const MIB: u64 = 64;

pub fn run(plan: &Plan) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for kind in ["tmpfs", "ext4"] {
        lines.push(one_kind(plan, kind)?);
    }
    Ok(lines)
}

/// A small file system of its own.
struct Disk {
    at: PathBuf,
    _dir: tempfile::TempDir,
}

fn quiet(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!(
            "{program} {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }
}

impl Disk {
    fn mount(kind: &str) -> Result<Self, String> {
        let dir = scratch();
        let at = dir.path().join("disk");
        std::fs::create_dir(&at).map_err(|e| e.to_string())?;
        let target = at.display().to_string();
        if kind == "tmpfs" {
            quiet(
                "mount",
                &["-t", "tmpfs", "-o", &format!("size={MIB}m"), "tmpfs", &target],
            )?;
        } else {
            let image = dir.path().join("image");
            File::create(&image)
                .and_then(|file| file.set_len(MIB << 20))
                .map_err(|e| e.to_string())?;
            let image = image.display().to_string();
            quiet("mkfs.ext4", &["-q", "-F", "-m", "0", &image])?;
            quiet("mount", &["-o", "loop", &image, &target])?;
        }
        Ok(Self { at, _dir: dir })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = quiet("umount", &["-l", &self.at.display().to_string()]);
    }
}

/// Takes every byte that is left.
fn fill(ballast: &Path) -> u64 {
    let mut file = File::options().create(true).append(true).open(ballast).unwrap();
    let mut taken = 0;
    for piece in [1 << 20, 64 << 10, 4 << 10, 512] {
        let bytes = vec![0x55; piece];
        while file.write_all(&bytes).is_ok() && file.sync_data().is_ok() {
            taken += piece as u64;
        }
    }
    taken
}

fn one_kind(plan: &Plan, kind: &str) -> Result<Line, String> {
    let rounds = plan.rounds(1, 6) as u64;
    let ports = ports::Block::take();
    let mut all = Findings::default();
    let (mut refused, mut unanswered, mut crashes, mut stuck) = (0, 0, 0, 0);
    let mut resumed = Vec::new();
    let mut remark = String::new();
    for round in 0..rounds {
        let disk = Disk::mount(kind)?;
        let dir = scratch();
        let mut site = Site::new(dir.path(), ports.broker())
            .with("mappedFileSizeCommitLog", "1048576")
            .with("maxMessageSize", "65536")
            .with("mappedFileSizeConsumeQueue", "20000")
            .with("cleanFileForciblyEnable", "false")
            .with(
                "flushDiskType",
                if round % 2 == 0 {
                    "SYNC_FLUSH"
                } else {
                    "ASYNC_FLUSH"
                },
            );
        site.store = disk.at.join("store");
        let mut server = Server::start(&plan.target, &site).expect("a broker starts");
        let made = Wire::connect(&site.address(), Duration::from_secs(10))
            .and_then(|mut wire| wire.create_topic(TOPIC, QUEUES));
        assert!(made.is_ok_and(|answer| answer.code == 0), "the topic is made");
        let mut load = Load::new(&site.address(), TOPIC, plan.seed, round + 1);
        load.body = (500, 6_000);
        load.one_connection = false;
        load.pause = Duration::from_millis(2);
        let journals = dir.path().join("journals");
        let producers = Producers::start(&load, 3, &journals);
        std::thread::sleep(Duration::from_millis(700));
        let ballast = disk.at.join("ballast");
        // Room that is reserved already takes some more; then two seconds of refusals.
        let (full, mut since) = (Instant::now(), None);
        while full.elapsed() < Duration::from_secs(15)
            && since.is_none_or(|t: Instant| t.elapsed() < Duration::from_secs(2))
        {
            fill(&ballast);
            if producers.refused.load(Ordering::SeqCst) > 0 {
                since.get_or_insert_with(Instant::now);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        std::fs::remove_file(&ballast).map_err(|e| e.to_string())?;
        let freed = Instant::now();
        // Until one is stored again; the producers go on all the time.
        let probe_limit = Duration::from_secs(20);
        let mut seconds = None;
        while freed.elapsed() < probe_limit {
            let sent = Wire::connect(&site.address(), Duration::from_secs(5))
                .and_then(|mut wire| wire.send("probe", 0, "probe", b"probe"));
            if sent.is_ok_and(|answer| answer.code == 0) {
                seconds = Some(freed.elapsed().as_secs_f64());
                break;
            }
            if !server.process.is_running() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_millis(500));
        let tally = producers.stop();
        refused += tally
            .codes
            .iter()
            .filter(|(code, _)| **code > 0)
            .map(|(_, n)| n)
            .sum::<u64>();
        unanswered += tally.of(NO_ANSWER);
        if !tally.remark.is_empty() {
            remark = tally.remark.clone();
        }
        let died = !server.process.is_running();
        crashes += u64::from(died);
        match seconds {
            Some(seconds) => resumed.push(seconds),
            None => stuck += 1,
        }
        if !died && seconds.is_some() {
            let mut live = Audit::new(TOPIC, QUEUES);
            live.index_step = 8;
            live.load_all(&journals);
            match live.look(&site.address()) {
                Ok(found) if found.is_clean() => {}
                Ok(found) => eprintln!("F3 {kind} before the restart: {found:?}"),
                Err(why) => {
                    eprintln!("F3 {kind} before the restart: {why}");
                    stuck += 1;
                }
            }
        }
        server.process.kill();
        let mut audit = Audit::new(TOPIC, QUEUES);
        audit.load_all(&journals);
        match Server::start(&plan.target, &site).and_then(|_server| audit.look(&site.address())) {
            Ok(found) => all.add(found),
            Err(why) => {
                eprintln!("F3 {kind}: {why}");
                stuck += 1;
            }
        }
    }
    eprintln!("F3 {kind}: last refusal: {remark}");
    let slowest = resumed.iter().copied().fold(0.0, f64::max);
    Ok(Line::new("F3", plan.seed)
        .figure("server", plan.target.name())
        .figure("disk", kind)
        .figure("rounds", rounds)
        .bar("acked", all.acked, all.acked > 0)
        .bar("refused", refused, refused > 0)
        .figure("unanswered", unanswered)
        .none("crashes", crashes)
        .none("lost", all.lost)
        .none("partial", all.torn)
        .none("extra", all.extra)
        .none("reorder", all.reorder)
        .none("unindexed", all.unindexed)
        .bar(
            "resume_s_max",
            format!("{slowest:.1}"),
            stuck == 0 && slowest < 15.0,
        )
        .none("needed_restart_or_lost", stuck))
}
