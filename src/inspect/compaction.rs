//! The log of a compacted topic: `compaction/compactionLog/TOPIC/QUEUE/`, and `compacting/` or `replicating/` beside its
//! files while Java works on them. Its records are those of a commit log, each with its offset in this log
//! (`CompactionLog.CompactionAppendMessageCallback`), and its files end with the same filler.

use std::path::Path;

use super::{Error, Log, READ_AHEAD, io_error};
use crate::protocol::message::MessageView;
use crate::store::format::file_name;
use crate::store::segments::{self, SegmentFile};

/// The log in one file, or in the files of a directory; empty when the directory has none.
pub fn compaction_log(path: &Path) -> Result<Log, Error> {
    let meta = path.metadata().map_err(io_error("read", path))?;
    let files = if meta.is_dir() {
        segments::list(path)?.files
    } else {
        let name = path.file_name().and_then(|name| name.to_str());
        vec![SegmentFile {
            base: name.and_then(file_name::parse_segment).unwrap_or(0),
            path: path.to_owned(),
            len: meta.len(),
        }]
    };
    let log = Log::reading(files.clone(), false, READ_AHEAD);
    // A copy under another name still says in its first record where it was.
    if let [file] = files.as_slice()
        && let Some(base) = first_offset(&log, file)
    {
        let file = SegmentFile { base, ..file.clone() };
        return Ok(Log::reading(vec![file], false, READ_AHEAD));
    }
    Ok(log)
}

/// The offset that the record at the begin of a file has, when it is not that of the file.
fn first_offset(log: &Log, file: &SegmentFile) -> Option<u64> {
    let head = log.bytes(file.base, 4);
    let size = usize::try_from(u32::from_be_bytes(*head.first_chunk()?)).ok()?;
    // No record is longer than its file.
    let size = size.min(usize::try_from(file.len).ok()?);
    let bytes = log.bytes(file.base, size);
    let offset = u64::try_from(MessageView::parse(&bytes).ok()?.physical_offset()).ok()?;
    (offset != file.base).then_some(offset)
}
