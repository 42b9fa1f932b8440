//! Copies a trace event by event in bounded memory. Every byte of an event stays, except for the fields that
//! must change.
//!
//! The reader itself drives the copy ([`hta_read::kineto::document::Document`] with a [`copier::Copier`] as
//! its sink). So exactly those events are copied that an analysis would see, and damaged events are repaired
//! or left out in the same way. The output is always valid JSON.

pub(crate) mod copier;
pub(crate) mod mend;
pub(crate) mod retime;
pub(crate) mod stream;
