//! Cleaning the store on demand: queue files behind the log (306), queues of topics that are gone (316), expired
//! segments of the log (329).

use std::sync::Arc;

use super::Broker;
use crate::protocol::codes;
use crate::protocol::requests::{CleanExpiredConsumequeue, CleanUnusedTopic, DeleteExpiredCommitlog};
use crate::remoting::{Answer, Handled, Peer, Refusal};
use crate::store::{self, LIGHT_QUEUE_PREFIX};

/// 306: deletes queue and index files whose messages are gone from the log. An emptied queue keeps its next offset,
/// so that no group stands beyond its end; Java takes such queues away and counts from 0 again.
pub async fn expired_queues(
    broker: &Arc<Broker>,
    _: &Peer,
    _: CleanExpiredConsumequeue,
    (): (),
) -> Handled<CleanExpiredConsumequeue> {
    let owner = broker.clone();
    blocking(move || owner.store.clean_expired_queues()).await?;
    Ok(Answer::ok((), ()))
}

/// 316: deletes the queues of topics that this broker does not know, but for system topics and light queues.
pub async fn unused_topics(
    broker: &Arc<Broker>,
    _: &Peer,
    _: CleanUnusedTopic,
    (): (),
) -> Handled<CleanUnusedTopic> {
    let owner = broker.clone();
    blocking(move || {
        for topic in owner.store.topics() {
            let kept = owner.topics.contains(&topic)
                || owner.topics.is_system(&topic)
                || topic.starts_with(LIGHT_QUEUE_PREFIX);
            if !kept {
                owner.store.delete_topic(&topic)?;
                owner.stats.drop_topic(&topic);
                tracing::info!(topic, "queues of a topic without configuration deleted");
            }
        }
        Ok(())
    })
    .await?;
    Ok(Answer::ok((), ()))
}

/// 329: lets the cleaner delete expired segments now, whatever the hour; it answers before that is done, as in Java.
pub async fn expired_log(
    broker: &Arc<Broker>,
    _: &Peer,
    _: DeleteExpiredCommitlog,
    (): (),
) -> Handled<DeleteExpiredCommitlog> {
    broker.store.delete_expired_soon();
    Ok(Answer::ok((), ()))
}

/// Runs what waits for the disk off the I/O threads.
async fn blocking(work: impl FnOnce() -> Result<(), store::Error> + Send + 'static) -> Result<(), Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) => Err(Refusal::new(codes::SYSTEM_ERROR, e.to_string())),
        Err(e) => Err(Refusal::new(
            codes::SYSTEM_ERROR,
            format!("cleaning was aborted: {e}"),
        )),
    }
}
