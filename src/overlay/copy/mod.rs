//! A trace copied event by event, in memory that does not grow with it: every byte of an event stays, but for
//! the few fields that are asked to change.
//!
//! The copy is made by the reader itself ([`crate::read::kineto::document::Document`] with a [`copier::Copier`] as its sink), so that
//! exactly those events are copied that an analysis would see, and a damaged event is left out or mended as it is
//! read. What is written is JSON in every case.

pub(crate) mod copier;
pub(crate) mod mend;
pub(crate) mod retime;
pub(crate) mod stream;
