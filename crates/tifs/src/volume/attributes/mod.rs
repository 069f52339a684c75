//! Attributes of inodes: permissions and times, ACLs, extended attributes, descriptions.

pub(in crate::volume) mod acl;
pub(in crate::volume) mod describe;
pub(in crate::volume) mod extended;
pub(in crate::volume) mod set_attributes;
