//! One request: guard, address map, deadline, observer. And the choice of a name server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::Instant;

use super::Client;
use super::error::{Error, Server, reason};
use super::pace::Rank;
use crate::fields::Fields;
use crate::protocol::frame::Frame;
use crate::protocol::{Body as _, Request, codes};
use crate::remoting::CallError;

/// A name server that has not answered in this time gets company: the next one is asked as well. Not while the question
/// stands in a line that moves: then nobody was asked yet.
const HEDGE: Duration = Duration::from_millis(400);
/// Pause before a request is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

tokio::task_local! {
    /// Set once the call of this task has left.
    static LEFT: Arc<AtomicBool>;
}

/// Requests that change nothing, by code. A read-only client sends no other. Not on the list although they look like
/// reads: 322 refreshes a broker's liveness, 352 creates the group where auto-create is on, and 11 with the commit
/// bit moves a group (checked where the pull is built).
const READS: &[i32] = &[
    11, 12, 14, 21, 26, 28, 29, 30, 31, 32, 33, 38, 43, 45, 101, 105, 106, 201, 202, 203, 204, 206, 208, 219,
    224, 300, 303, 304, 305, 307, 308, 311, 312, 313, 315, 317, 319, 321, 328, 343, 345, 351, 402, 901, 907,
    1005, 1006, 1007, 1010, 2003, 3004, 3005, 3009, 3010, 200_074, 200_075, 200_076,
];

/// Until when an answer is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(End);

#[derive(Debug, Clone, Copy)]
enum End {
    /// The absolute end of an operation, shared by all its requests.
    At(Instant),
    /// Each request has this long from its own beginning: a server that hangs takes nothing from the next one.
    Each(Duration),
}

/// That long from now.
fn from_now(span: Duration) -> Instant {
    let now = Instant::now();
    // A century stands for "never" when the sum does not fit.
    now.checked_add(span)
        .unwrap_or_else(|| now + Duration::from_secs(3_153_600_000))
}

impl Deadline {
    /// That long from now.
    pub fn after(span: Duration) -> Self {
        Self(End::At(from_now(span)))
    }

    /// That long for each request.
    pub const fn each(span: Duration) -> Self {
        Self(End::Each(span))
    }

    /// This end, or that long from now if that is earlier: an absolute one.
    #[must_use]
    pub fn at_most(self, span: Duration) -> Self {
        Self(End::At(self.instant().min(from_now(span))))
    }

    /// The moment itself, for a request that begins now.
    pub(super) fn instant(self) -> Instant {
        match self.0 {
            End::At(end) => end,
            End::Each(span) => from_now(span),
        }
    }

    /// What is left of it, for a request that begins now.
    pub fn left(&self) -> Duration {
        self.instant().saturating_duration_since(Instant::now())
    }
}

/// One finished request, as an observer is told of it.
#[derive(Debug)]
pub struct Observed<'a> {
    /// Request code.
    pub code: i32,
    /// Java's name of the request.
    pub name: &'static str,
    /// Whom we asked.
    pub server: &'a Server,
    /// How long it took.
    pub took: Duration,
    /// Header of the request.
    pub fields: &'a Fields,
    /// The answer, or what went wrong.
    pub outcome: Result<&'a Frame, &'a CallError>,
}

/// A reply whose header or body is not what the request promises.
#[derive(Debug)]
pub struct Unreadable<'a> {
    /// Whom we asked.
    pub server: &'a Server,
    /// Java's name of the request.
    pub request: &'static str,
    /// What is wrong with it.
    pub why: &'a crate::protocol::Error,
    /// Its body, as it came.
    pub bytes: &'a [u8],
}

/// Is told of every reply that could not be read.
pub type UnreadableListener = Box<dyn Fn(&Unreadable<'_>) + Send + Sync>;

/// Is told of every request.
pub type Observer = Box<dyn Fn(&Observed<'_>) + Send + Sync>;

impl Client {
    /// The limit of a request: each has it for itself.
    pub fn deadline(&self) -> Deadline {
        Deadline::each(self.timeout())
    }

    /// Calls `server`. Any response code but 0 is an error that carries it.
    pub async fn call<R: Request>(
        &self,
        server: &Server,
        header: &R,
        body: R::Body,
        deadline: Deadline,
    ) -> Result<(R::Reply, R::ReplyBody), Error> {
        let answer = self.exchange(server, header, body, deadline).await?;
        let failed = |source| Error::Call {
            request: R::NAME,
            server: server.clone(),
            source,
            changes: !READS.contains(&R::CODE),
        };
        if answer.code != codes::SUCCESS {
            return Err(failed(remote(server, answer)));
        }
        let bytes = answer.body.clone();
        let malformed = |source| {
            if let Some(listener) = &self.options.unreadable {
                listener(&Unreadable {
                    server,
                    request: R::NAME,
                    why: &source,
                    bytes: &bytes,
                });
            }
            let addr = server.addr.clone();
            failed(CallError::Protocol { addr, source })
        };
        let header = answer.fields.to_value().map_err(|e| malformed(e.into()))?;
        let body = R::ReplyBody::decode(answer.body).map_err(malformed)?;
        Ok((header, body))
    }

    /// Calls `server` and gives its answer whatever the code.
    pub async fn exchange<R: Request>(
        &self,
        server: &Server,
        header: &R,
        body: R::Body,
        deadline: Deadline,
    ) -> Result<Frame, Error> {
        let changes = !READS.contains(&R::CODE);
        let deadline = Deadline(End::At(deadline.instant()));
        if self.is_read_only() && changes {
            return Err(Error::Guarded {
                request: R::NAME,
                code: R::CODE,
            });
        }
        let dial = self.options.address_map.dial(&server.addr);
        let failed = |source| Error::Call {
            request: R::NAME,
            server: server.clone(),
            source,
            changes,
        };
        let mut fields = Fields::from_value(header).map_err(|e| {
            failed(CallError::Unsendable {
                addr: server.addr.clone(),
                source: e.into(),
            })
        })?;
        let body = crate::protocol::frame::join(body.encode());
        if let Some(credentials) = &self.options.credentials {
            credentials.sign(&mut fields, &body);
        }
        let mut again = match self.options.retries {
            Some(n) => n,
            None => u32::from(!changes),
        };
        loop {
            let (turn, left) = match &self.options.pace {
                None => (None, deadline.left()),
                Some(pace) => match pace.turn(&dial, Rank::here(), deadline).await {
                    Some((turn, left)) => (Some(turn), left),
                    None => {
                        let addr = server.addr.clone();
                        return Err(failed(CallError::Busy { addr }));
                    }
                },
            };
            if left.is_zero() {
                let addr = server.addr.clone();
                return Err(failed(CallError::NoTime { addr }));
            }
            // Outside of a question to the name servers nobody listens.
            let _ = LEFT.try_with(|left| left.store(true, Ordering::Relaxed));
            let start = Instant::now();
            let mut frame = Frame::request(R::CODE, fields.clone());
            frame.body = body.clone();
            let outcome = self.pool.exchange(&dial, frame, left).await;
            drop(turn);
            if let Some(observer) = &self.options.observer {
                observer(&Observed {
                    code: R::CODE,
                    name: R::NAME,
                    server,
                    took: start.elapsed(),
                    fields: &fields,
                    outcome: outcome.as_ref(),
                });
            }
            // Only what surely was not done: no connection, or a server that sheds load. A refused connection is
            // final: nobody listens there.
            let not_taken = match &outcome {
                Ok(answer) => answer.code == codes::SYSTEM_BUSY,
                Err(CallError::Connect { source, .. }) => {
                    source.kind() != std::io::ErrorKind::ConnectionRefused
                }
                Err(_) => false,
            };
            // Of the deadline as the wait for the turn has extended it.
            let left = left.saturating_sub(start.elapsed());
            if !not_taken || again == 0 || left <= RETRY_PAUSE {
                return outcome.map_err(failed);
            }
            again -= 1;
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Asks the name servers, starting with the next one in turn. A dead one is skipped, a slow one gets company,
    /// and one that says no is believed only when the others cannot do better.
    pub async fn ask<R>(
        &self,
        header: &R,
        deadline: Deadline,
    ) -> Result<(Server, R::Reply, R::ReplyBody), Error>
    where
        R: Request<Body = ()>,
    {
        let servers = self.in_turn();
        let mut waiting = FuturesUnordered::new();
        let mut next = servers.into_iter();
        let (mut tried, mut refused) = (Vec::new(), None);
        let mut newest = (String::new(), Arc::<AtomicBool>::default());
        loop {
            if waiting.is_empty() {
                let Some(addr) = next.next() else { break };
                newest = (addr.clone(), Arc::default());
                waiting.push(LEFT.scope(Arc::clone(&newest.1), self.ask_one(addr, header, deadline)));
            }
            let Ok(outcome) = tokio::time::timeout(HEDGE, waiting.next()).await else {
                if self.is_in_line(&newest.0, &newest.1) {
                    continue;
                }
                if let Some(addr) = next.next() {
                    newest = (addr.clone(), Arc::default());
                    waiting.push(LEFT.scope(Arc::clone(&newest.1), self.ask_one(addr, header, deadline)));
                    continue;
                }
                // All are asked: wait for the first that answers.
                match waiting.next().await {
                    Some(outcome) => {
                        if let Some(answer) = self.sort_out::<R>(outcome, &mut tried, &mut refused) {
                            return Ok(answer);
                        }
                        continue;
                    }
                    None => break,
                }
            };
            if let Some(outcome) = outcome
                && let Some(answer) = self.sort_out::<R>(outcome, &mut tried, &mut refused)
            {
                return Ok(answer);
            }
        }
        Err(refused.unwrap_or(Error::NoNameServer { tried }))
    }

    /// Asks every name server at once; one result each, in the order of the configuration.
    pub async fn ask_each<R>(
        &self,
        header: &R,
        deadline: Deadline,
    ) -> Vec<(String, Result<(R::Reply, R::ReplyBody), Error>)>
    where
        R: Request<Body = ()>,
    {
        let servers = self.name_servers().to_vec();
        self.each(servers, |addr| async move {
            let answer = self.call(&Server::at(&addr), header, (), deadline).await;
            (addr, answer)
        })
        .await
    }

    /// Runs `work` for every target, at most `parallel` at once; results in the order of the targets.
    pub async fn each<T, O, F>(&self, targets: Vec<T>, work: impl Fn(T) -> F) -> Vec<O>
    where
        F: Future<Output = O>,
    {
        futures_util::stream::iter(targets)
            .map(work)
            .buffered(self.options.parallel.max(1))
            .collect()
            .await
    }

    async fn ask_one<R>(&self, addr: String, header: &R, deadline: Deadline) -> NameServerAnswer<R>
    where
        R: Request<Body = ()>,
    {
        let server = Server::at(addr);
        let answer = self.call(&server, header, (), deadline).await;
        (server, answer)
    }

    /// The call has not left yet, and those before it do.
    fn is_in_line(&self, addr: &str, left: &AtomicBool) -> bool {
        let pace = self.options.pace.as_ref();
        !left.load(Ordering::Relaxed)
            && pace.is_some_and(|pace| pace.moves(&self.options.address_map.dial(addr)))
    }

    fn sort_out<R: Request>(
        &self,
        (server, answer): NameServerAnswer<R>,
        tried: &mut Vec<(String, CallError)>,
        refused: &mut Option<Error>,
    ) -> Option<(Server, R::Reply, R::ReplyBody)> {
        match answer {
            Ok((reply, body)) => return Some((server, reply, body)),
            Err(e) if e.is_unreachable() => {
                if let Error::Call { source, .. } = e {
                    self.mark_dead(&server.addr, &source);
                    tried.push((server.addr, source));
                }
            }
            Err(e) => {
                refused.get_or_insert(e);
            }
        }
        None
    }

    /// Remembers a dead name server for the warning, and for asking it last.
    pub(super) fn mark_dead(&self, addr: &str, why: &CallError) {
        self.dead
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(addr.to_owned(), reason(why));
    }

    /// All name servers, the next in turn first, those known dead last.
    fn in_turn(&self) -> Vec<String> {
        let all = self.name_servers();
        if all.is_empty() {
            return Vec::new();
        }
        let start = self.next_name_server.fetch_add(1, Ordering::Relaxed) % all.len();
        let mut list: Vec<String> = all[start..].iter().chain(&all[..start]).cloned().collect();
        let dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        list.sort_by_key(|addr| dead.contains_key(addr));
        list
    }
}

type NameServerAnswer<R> = (
    Server,
    Result<(<R as Request>::Reply, <R as Request>::ReplyBody), Error>,
);

/// The error of an answer that is not a success.
pub(super) fn remote(server: &Server, answer: Frame) -> CallError {
    CallError::Remote {
        addr: server.addr.clone(),
        code: answer.code,
        remark: answer.remark.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::requests as r;

    #[test]
    fn what_changes_state_is_not_on_the_read_list() {
        for code in [
            r::SendMessageV2::CODE,
            r::SendMessage::CODE,
            r::UpdateAndCreateTopic::CODE,
            r::DeleteTopicInBroker::CODE,
            r::DeleteTopicInNamesrv::CODE,
            r::UpdateBrokerConfig::CODE,
            r::UpdateConsumerOffset::CODE,
            r::HeartBeat::CODE,
            r::UnregisterClient::CODE,
            r::WipeWritePermOfBroker::CODE,
            r::PutKvConfig::CODE,
            r::UpdateNamesrvConfig::CODE,
            r::InvokeBrokerToResetOffset::CODE,
            r::GetSubscriptiongroupConfig::CODE,
            r::UpdateAndCreateSubscriptiongroup::CODE,
        ] {
            assert!(!READS.contains(&code), "{code}");
        }
    }
}
