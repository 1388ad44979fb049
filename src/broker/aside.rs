//! Work that may wait for the disk, done aside from the threads that serve sockets, a few at a time.
//!
//! A page of a mapped file that is not in memory stops whoever touches it, and a socket thread that stops holds up
//! every connection it serves. So reads of old messages and searches by time run on the runtime's blocking threads.
//! Each kind has its own few permits: a hundred cold readers wait for each other, and leave threads to the rest.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::Broker;
use crate::protocol::codes;
use crate::remoting::Refusal;
use crate::store::{Got, MessageFilter, MessageStore, touch};

/// Reads for pulls that wait for the disk at a time.
const READS: usize = 8;
/// Searches and look-ups at a time.
const LOOKUPS: usize = 4;
/// Reads for pulls with costly filters at a time: they take the processor, not the disk.
const COSTLY: usize = 2;

/// Permits for work aside.
#[derive(Debug)]
pub(super) struct Aside {
    reads: Arc<Semaphore>,
    lookups: Arc<Semaphore>,
    costly: Arc<Semaphore>,
}

impl Default for Aside {
    fn default() -> Self {
        Self {
            reads: Arc::new(Semaphore::new(READS)),
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
            costly: Arc::new(Semaphore::new(COSTLY)),
        }
    }
}

/// Waits for a turn, then for the work. The turn lasts as long as the work does, whoever goes on waiting for it.
async fn run<T: Send + 'static>(
    permits: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let aborted =
        |e: &dyn std::fmt::Display| Refusal::new(codes::SYSTEM_ERROR, format!("reading was aborted: {e}"));
    let permit = Arc::clone(permits)
        .acquire_owned()
        .await
        .map_err(|e| aborted(&e))?;
    let work = move || {
        let _permit = permit;
        work()
    };
    tokio::task::spawn_blocking(work).await.map_err(|e| aborted(&e))
}

/// A read of a queue.
#[derive(Debug)]
pub(super) struct Read<F> {
    pub(super) topic: String,
    pub(super) queue_id: i32,
    pub(super) offset: i64,
    pub(super) most: usize,
    pub(super) filter: F,
}

impl<F: MessageFilter> Read<F> {
    fn in_memory(&self, store: &MessageStore) -> Option<Got> {
        let Self { topic, filter, .. } = self;
        store.get_in_memory(topic, self.queue_id, self.offset, self.most, usize::MAX, filter)
    }

    /// Reads, and brings all of the records into memory: they are sent from the mapped file.
    fn aside(&self, store: &MessageStore) -> Got {
        let Self { topic, filter, .. } = self;
        let got = store.get_filtered(topic, self.queue_id, self.offset, self.most, usize::MAX, filter);
        got.records.iter().for_each(|record| touch(record));
        got
    }
}

impl Broker {
    /// Reads a queue: at once what is in memory, aside what is not or takes long to filter.
    pub(super) async fn read_queue<F>(&self, read: Read<F>) -> Result<Got, Refusal>
    where
        F: MessageFilter + Send + 'static,
    {
        let store = Arc::clone(&self.store);
        if read.filter.is_costly() {
            return run(&self.aside.costly, move || read.aside(&store)).await;
        }
        if let Some(got) = read.in_memory(&self.store) {
            return Ok(got);
        }
        run(&self.aside.reads, move || read.aside(&store)).await
    }

    /// Searches or looks up aside.
    pub(super) async fn look_up<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        run(&self.aside.lookups, work).await
    }

    /// Brings the record at a physical offset into memory, if there is one and it is not there.
    pub(super) async fn warm_record(&self, offset: i64) -> Result<(), Refusal> {
        if self.store.record_in_memory(offset) {
            return Ok(());
        }
        let store = Arc::clone(&self.store);
        self.look_up(move || {
            if let Some(record) = store.record_at(offset) {
                touch(&record);
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn only_so_many_run_at_a_time_and_all_of_them_in_the_end() {
        let permits = Arc::new(Semaphore::new(2));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let all = (0..20).map(|n| {
            let (now, most, permits) = (now.clone(), most.clone(), permits.clone());
            async move {
                let work = move || {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    now.fetch_sub(1, Ordering::SeqCst);
                    n
                };
                run(&permits, work).await.unwrap()
            }
        });
        let done = futures_util::future::join_all(all).await;
        assert_eq!(done, (0..20).collect::<Vec<_>>());
        assert!(most.load(Ordering::SeqCst) <= 2);
    }
}
