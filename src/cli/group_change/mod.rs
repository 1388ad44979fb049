//! `rmq group create|update|delete|set-mode|pause|resume`, and the place of `forbid|allow`.

mod create;
mod delete;
mod fields;
mod set_mode;
mod update;
mod write;

use clap::{Args, Subcommand};

use super::exit::{self, Failure};
use super::group::not_found;
use super::group_forbid::{self, ForbidArgs};
use super::scope::ScopeArgs;
use super::session::Session;
use crate::client::BrokerAt;
use crate::client::admin::group::is_system;
use crate::client::admin::group_config::GroupPatch;
use crate::client::words::counted;
use crate::protocol::model::check_group;
use create::{CreateArgs, create};
use delete::{DeleteArgs, delete};
use fields::FieldArgs;
use set_mode::{SetModeArgs, set_mode};
use update::{How, update};

/// Commands that change a group.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Create a group; fails when it exists
    Create(CreateArgs),
    /// Change the named fields of a group and no others
    Update(UpdateArgs),
    /// Delete a group: its configuration, its positions, its retry and dead-letter topics
    Delete(DeleteArgs),
    /// Set how a group gets the messages of a topic: pull or pop
    SetMode(SetModeArgs),
    /// Stop a group from consuming, keeping everything else
    Pause(PauseArgs),
    /// Let a paused group consume again
    Resume(PauseArgs),
    /// Forbid a group to read one topic; its pulls there are refused
    Forbid(ForbidArgs),
    /// Let a group read a topic again
    Allow(ForbidArgs),
}

/// `rmq group update`
#[derive(Debug, Clone, Args)]
pub struct UpdateArgs {
    /// Group name
    name: String,
    #[command(flatten)]
    fields: FieldArgs,
    /// Remove an attribute; repeatable
    #[arg(long, value_name = "KEY")]
    unset_attr: Vec<String>,
    /// Create it where it does not exist, with the defaults of group create
    #[arg(long)]
    create: bool,
    /// Change a group of the broker's own
    #[arg(long)]
    force_system: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `rmq group pause` and `rmq group resume`
#[derive(Debug, Clone, Args)]
pub struct PauseArgs {
    /// Group name
    name: String,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// Runs a command that changes a group.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Create(args) => create(session, args).await,
        Command::Update(args) => {
            let mut patch = args.fields.patch()?;
            patch.unset_attributes = args.unset_attr.into_iter().collect();
            if patch.is_empty() && !args.create {
                return Err(
                    Failure::usage(format!("nothing to change in group {} is named", args.name))
                        .hint(format!("rmq group update {} --retry-max 5", args.name)),
                );
            }
            let how = How {
                verb: "update",
                force_system: args.force_system,
                create: args.create,
            };
            update(session, &how, &args.name, &patch, &args.scope).await
        }
        Command::Pause(args) => {
            let patch = GroupPatch {
                consume_enable: Some(false),
                ..GroupPatch::default()
            };
            update(session, &How::plain("pause"), &args.name, &patch, &args.scope).await
        }
        Command::Resume(args) => {
            let patch = GroupPatch {
                consume_enable: Some(true),
                ..GroupPatch::default()
            };
            update(session, &How::plain("resume"), &args.name, &patch, &args.scope).await
        }
        Command::Forbid(args) => group_forbid::run(session, args, false).await,
        Command::Allow(args) => group_forbid::run(session, args, true).await,
        Command::Delete(args) => delete(session, args).await,
        Command::SetMode(args) => set_mode(session, args).await,
    }
}

/// Refuses a name that is none, and groups of the broker's own unless they are meant.
pub fn check_name(name: &str, force_system: bool) -> Result<(), Failure> {
    check_group(name).map_err(|e| Failure::usage(format!("group \"{name}\": {e}")))?;
    if is_system(name) && !force_system {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("\"{name}\" is a group of the broker's own; nothing was changed"),
        )
        .hint("--force-system if that is really meant"));
    }
    Ok(())
}

/// No broker has a configuration of the group; it may have positions still.
pub async fn without_configuration(session: &Session, brokers: &[BrokerAt], name: &str) -> Failure {
    not_found(session, brokers, name).await.unwrap_or_else(|| {
        Failure::new(
            exit::NOT_FOUND,
            format!(
                "group \"{name}\" has no configuration on {}, only positions",
                counted(brokers.len(), "broker")
            ),
        )
        .hint(format!("rmq group create {name}"))
    })
}
