//! The end of a transaction (37), and one more chance for a half message that was given up (323).

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{HalfRecord, immunity, next_record};
use crate::broker::put::again;
use crate::broker::topics::{TRANS_CHECK_MAX, TRANS_HALF};
use crate::broker::{Broker, now_ms, send};
use crate::protocol::codes;
use crate::protocol::message::{MessageView, NewMessage};
use crate::protocol::message_id::parse_offset_id;
use crate::protocol::model::SysFlag;
use crate::protocol::requests::{EndTransaction, ResumeCheckHalfMessage};
use crate::remoting::{Answer, Handled, Peer, Refusal};
use crate::store::Appended;

/// How long an end waits, after a start, until the half messages of the store are known.
const LOAD_PATIENCE: Duration = Duration::from_secs(10);

/// 37: a producer commits its half message or rolls it back, by itself or because it was asked.
pub async fn end(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: EndTransaction,
    (): (),
) -> Handled<EndTransaction> {
    let commit = match header.commit_or_rollback {
        SysFlag::TRANSACTION_COMMIT => true,
        SysFlag::TRANSACTION_ROLLBACK => false,
        0 => {
            // Java never answers this one; producers send it oneway.
            return Ok(Answer {
                code: codes::SUCCESS,
                remark: Some("the state of the transaction is unknown, it stays open".into()),
                header: (),
                body: (),
            });
        }
        _ => return Err(wrong("commitOrRollback field wrong")),
    };
    tokio::time::timeout(LOAD_PATIENCE, broker.transactions.loaded())
        .await
        .map_err(|_| Refusal::new(codes::SYSTEM_BUSY, "the half messages are still being read"))?;
    broker.warm_record(header.commit_log_offset).await?;
    broker.end_transaction(&header, commit).inspect_err(|refusal| {
        tracing::warn!(peer = %peer.remote(), group = header.producer_group, offset = header.commit_log_offset,
            commit, reason = refusal.remark, "transaction not ended");
    })?;
    Ok(Answer::ok((), ()))
}

/// 323: asks again about a half message that was given up, or from the first check on about one that is still open.
pub async fn resume(
    broker: &Arc<Broker>,
    _: &Peer,
    header: ResumeCheckHalfMessage,
    (): (),
) -> Handled<ResumeCheckHalfMessage> {
    let (_, offset) = parse_offset_id(header.msg_id.as_deref().unwrap_or_default()).map_err(|e| {
        wrong(format!(
            "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed: {e}"
        ))
    })?;
    tokio::time::timeout(LOAD_PATIENCE, broker.transactions.loaded())
        .await
        .map_err(|_| Refusal::new(codes::SYSTEM_BUSY, "the half messages are still being read"))?;
    broker.warm_record(offset).await?;
    let appended = broker.resume_checks(offset)?;
    broker.until_durable(&appended).await?;
    Ok(Answer::ok((), ()))
}

fn wrong(remark: impl Into<String>) -> Refusal {
    Refusal::new(codes::SYSTEM_ERROR, remark)
}

impl Broker {
    /// All of it happens before anything is awaited: a commit is stored and marked, or neither.
    fn end_transaction(&self, header: &EndTransaction, commit: bool) -> Result<(), Refusal> {
        let missing = || wrong("Find prepared transaction message failed");
        let bytes = self
            .store
            .record_at(header.commit_log_offset)
            .ok_or_else(missing)?;
        let record = HalfRecord::parse(&bytes).ok_or_else(missing)?;
        if !header.from_transaction_check {
            self.refuse_late(&record)?;
        }
        if record.group != header.producer_group {
            return Err(wrong("The producer group wrong"));
        }
        if record.view.queue_offset() != header.tran_state_table_offset {
            return Err(wrong("The transaction state table offset wrong"));
        }
        if !self.transactions.halves().claim(record.first, record.group) {
            // Java commits it once more, also after a rollback.
            return Err(wrong(
                "the transaction is not open: it was ended before, or given up",
            ));
        }
        if commit && let Err(refusal) = self.put_committed(&record, header.commit_log_offset) {
            self.transactions.halves().release(record.first);
            return Err(refusal);
        }
        self.transactions.halves().end(record.first);
        self.transactions.marks.notify_one();
        Ok(())
    }

    /// A half message with a time of its own must be ended within it; later the checker decides.
    fn refuse_late(&self, record: &HalfRecord<'_>) -> Result<(), Refusal> {
        let config = self.config();
        let Some(own) = immunity(record.view.properties(), &config) else {
            return Ok(());
        };
        let age = u64::try_from(now_ms() - record.view.store_timestamp()).unwrap_or(0);
        if Duration::from_millis(age) > own.max(config.transaction_timeout()) {
            return Err(Refusal::new(
                codes::ILLEGAL_OPERATION,
                "later than the half message's own time, wait for the check",
            ));
        }
        Ok(())
    }

    fn put_committed(&self, record: &HalfRecord<'_>, half_offset: i64) -> Result<(), Refusal> {
        let started = Instant::now();
        let half = again(&record.view);
        let message = NewMessage {
            topic: record.real_topic.to_owned(),
            queue_id: record.real_queue,
            sys_flag: SysFlag(half.sys_flag.0 & !SysFlag::TRANSACTION_MASK | SysFlag::TRANSACTION_COMMIT),
            prepared_transaction_offset: half_offset,
            ..half
        };
        let appended = self.put(&message).map_err(|e| send::refusal(self, e))?;
        let system = self.topics.is_system(&message.topic);
        let bytes = appended.end - appended.offset;
        self.stats
            .put(&message.topic, system, 1, bytes, started.elapsed());
        Ok(())
    }

    fn resume_checks(&self, offset: i64) -> Result<Appended, Refusal> {
        let failed = |why: &str| wrong(format!("Put message back to {TRANS_HALF} failed: {why}"));
        let bytes = self
            .store
            .record_at(offset)
            .ok_or_else(|| failed("no message at this offset"))?;
        let view = MessageView::parse(&bytes).map_err(|_| failed("no message at this offset"))?;
        let record = match view.topic() {
            TRANS_HALF | TRANS_CHECK_MAX => HalfRecord::of(view),
            _ => None,
        };
        let record = record.ok_or_else(|| failed("it is no half message"))?;
        if record.view.topic() == TRANS_CHECK_MAX {
            let half = NewMessage {
                topic: TRANS_HALF.to_owned(),
                queue_id: super::QUEUE,
                ..next_record(&record.view, Some(0), None)
            };
            return self.put_half(&half).map_err(|e| failed(&e.to_string()));
        }
        if !self.transactions.halves().claim(record.first, record.group) {
            return Err(failed("the transaction is not open"));
        }
        let half = next_record(&record.view, Some(0), Some(record.first));
        let moved = self.move_half(record.first, &half, 0);
        self.transactions.halves().release(record.first);
        moved.map_err(|e| failed(&e.to_string()))
    }
}
