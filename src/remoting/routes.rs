//! The table from request code to handler.
//!
//! A line `SendMessage => send::send_message` expands to a `match` arm that decodes header and body, awaits the
//! handler and encodes what it returned.

use std::future::Future;

use super::{Peer, Refusal, Reply};
use crate::fields::Fields;
use crate::protocol::{Body, Request, codes, frame::Frame};

/// A successful (or at least structured) answer of a handler.
#[derive(Debug)]
pub struct Answer<R: Request> {
    /// Response code; a pull answers 19, 20 and 21 with a full header.
    pub code: i32,
    /// Remark, if any.
    pub remark: Option<String>,
    /// Header of the answer.
    pub header: R::Reply,
    /// Body of the answer.
    pub body: R::ReplyBody,
}

impl<R: Request> Answer<R> {
    /// Success with header and body.
    pub fn ok(header: R::Reply, body: R::ReplyBody) -> Self {
        Self {
            code: codes::SUCCESS,
            remark: None,
            header,
            body,
        }
    }
}

/// What a handler returns.
pub type Handled<R> = Result<Answer<R>, Refusal>;

/// One line of a routes table, for logs and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Request code.
    pub code: i32,
    /// Java's name.
    pub name: &'static str,
    /// Path of the handler.
    pub handler: &'static str,
}

/// Decodes a request, runs its handler and encodes the answer.
pub async fn answer<R, F, Fut>(request: Frame, handler: F) -> Reply
where
    R: Request,
    F: FnOnce(R, R::Body) -> Fut,
    Fut: Future<Output = Handled<R>>,
{
    let decoded = match (request.fields.to_value::<R>(), R::Body::decode(request.body)) {
        (Ok(header), Ok(body)) => Ok((header, body)),
        (Err(e), _) => Err(Refusal::new(codes::SYSTEM_ERROR, format!("{}: {e}", R::NAME))),
        (_, Err(e)) => Err(Refusal::new(codes::SYSTEM_ERROR, format!("{}: {e}", R::NAME))),
    };
    let handled = match decoded {
        Ok((header, body)) => handler(header, body).await,
        Err(refusal) => Err(refusal),
    };
    match handled {
        Ok(answer) => match Fields::from_value(&answer.header) {
            Ok(fields) => Reply {
                code: answer.code,
                remark: answer.remark,
                fields,
                body: answer.body.encode(),
            },
            Err(e) => Refusal::from(e).into(),
        },
        Err(refusal) => refusal.into(),
    }
}

/// The answer to a code that nobody handles, with Java's text.
pub fn unsupported(peer: &Peer, code: i32) -> Reply {
    tracing::debug!(peer = %peer.remote(), code, "request code not supported");
    Refusal::new(
        codes::REQUEST_CODE_NOT_SUPPORTED,
        format!(" request type {code} not supported"),
    )
    .into()
}

/// Declares a role's table: `routes! { Broker; SendMessage => send::send_message, … }` emits
/// `ROUTES` and `dispatch(role, peer, request) -> Reply`.
#[macro_export]
macro_rules! routes {
    ($role:ty; $($request:ident => $module:ident :: $handler:ident),* $(,)?) => {
        /// Every request this role answers.
        pub const ROUTES: &[$crate::remoting::Route] = &[
            $($crate::remoting::Route {
                code: <$request as $crate::protocol::Request>::CODE,
                name: <$request as $crate::protocol::Request>::NAME,
                handler: concat!(stringify!($module), "::", stringify!($handler)),
            },)*
        ];

        /// Runs the handler of one request.
        pub async fn dispatch(
            role: std::sync::Arc<$role>,
            peer: $crate::remoting::Peer,
            request: $crate::protocol::frame::Frame,
        ) -> $crate::remoting::Reply {
            match request.code {
                $(<$request as $crate::protocol::Request>::CODE => {
                    $crate::remoting::routes::answer::<$request, _, _>(request, |header, body| {
                        super::$module::$handler(&role, &peer, header, body)
                    })
                    .await
                })*
                code => $crate::remoting::routes::unsupported(&peer, code),
            }
        }
    };
}
