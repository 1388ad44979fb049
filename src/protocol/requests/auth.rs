//! Users and access rules of a broker (3001 to 3010).
//!
//! A broker whose metadata providers are not configured answers all of them with 1.

use serde::{Deserialize, Serialize};

use crate::protocol::Json;
use crate::protocol::body::{AclInfo, UserInfo};
use crate::request;

/// Make a user; the body has password, type and status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CreateUser {
    /// User name.
    pub username: String,
}
request!(CreateUser = 3001 "AUTH_CREATE_USER" (Json<UserInfo>) -> (), ());

/// Change the fields of a user that the body has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateUser {
    /// User name.
    pub username: String,
}
request!(UpdateUser = 3002 "AUTH_UPDATE_USER" (Json<UserInfo>) -> (), ());

/// Delete a user and its access rules; success also when there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteUser {
    /// User name.
    pub username: String,
}
request!(DeleteUser = 3003 "AUTH_DELETE_USER" (()) -> (), ());

/// One user, with its password; no body when there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GetUser {
    /// User name.
    pub username: String,
}
request!(GetUser = 3004 "AUTH_GET_USER" (()) -> (), Option<Json<UserInfo>>);

/// Users whose name contains the filter; no body when there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListUsers {
    /// Part of the name.
    pub filter: Option<String>,
}
request!(ListUsers = 3005 "AUTH_LIST_USER" (()) -> (), Option<Json<Vec<UserInfo>>>);

/// Add access rules to a subject.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CreateAcl {
    /// `User:name`.
    pub subject: String,
}
request!(CreateAcl = 3006 "AUTH_CREATE_ACL" (Json<AclInfo>) -> (), ());

/// Replace the access rules of a subject for the resources in the body.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateAcl {
    /// `User:name`.
    pub subject: String,
}
request!(UpdateAcl = 3007 "AUTH_UPDATE_ACL" (Json<AclInfo>) -> (), ());

/// Delete the access rules of a subject, for one resource or for all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteAcl {
    /// `User:name`.
    pub subject: String,
    /// `Custom` when absent.
    pub policy_type: Option<String>,
    /// `Topic:name`; every resource when absent.
    pub resource: Option<String>,
}
request!(DeleteAcl = 3008 "AUTH_DELETE_ACL" (()) -> (), ());

/// The access rules of a subject; no body when it has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GetAcl {
    /// `User:name`.
    pub subject: String,
}
request!(GetAcl = 3009 "AUTH_GET_ACL" (()) -> (), Option<Json<AclInfo>>);

/// Access rules by parts of subject and resource; no body when there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListAcls {
    /// Part of the subject.
    pub subject_filter: Option<String>,
    /// Part of the resource.
    pub resource_filter: Option<String>,
}
request!(ListAcls = 3010 "AUTH_LIST_ACL" (()) -> (), Option<Json<Vec<AclInfo>>>);
