//! Writing a folder of files to a store: complete, or not at all.
//!
//! The file that proves completeness is written last, and that of an earlier result is removed first, so that
//! no reader takes a mixture for a result. If the upload fails or is interrupted, what it has written is
//! removed; parts of large objects that are on their way are aborted. Only a killed process leaves objects,
//! and never the proof.

use super::address::Address;
use super::fault::{Fault, whole_answer};
use super::location::Location;
use super::scheme::Service;
use super::stores::runtime;
use futures_util::StreamExt;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use std::fs::File;
use std::io::ErrorKind::{Interrupted, Unsupported};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Bytes of a part of a large object. Smaller objects are written at once.
const PART: u64 = 8 << 20;

/// Largest number of parts that every store takes.
const MOST_PARTS: u64 = 9_000;

/// Objects that are written at a time. Of each, one part is in memory.
const AT_ONCE: usize = 3;

/// Time for removing what an interrupted upload has written.
const TIDYING: Duration = Duration::from_secs(30);

/// Number of uploads that are running, and whether they are to stop: an interrupt ends all of the process.
static RUNNING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());
static STOP: AtomicBool = AtomicBool::new(false);

/// A running upload, as [`abandon_uploads`] knows it.
struct RunningUpload;

impl RunningUpload {
    fn begin() -> Self {
        *RUNNING.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for RunningUpload {
    fn drop(&mut self) {
        *RUNNING.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        RUNNING.1.notify_all();
    }
}

/// Stops all uploads of this process, and waits until they have removed what they have written.
pub fn abandon_uploads() {
    STOP.store(true, Ordering::SeqCst);
    let running = RUNNING.0.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = RUNNING.1.wait_timeout_while(running, TIDYING, |running| *running > 0);
}

fn go_on() -> Result<(), Fault> {
    if STOP.load(Ordering::SeqCst) { Err(Fault::new(Interrupted, "interrupted", None)) } else { Ok(()) }
}

impl Location {
    /// Writes `files` of the folder `from`, given relative to it, to this folder of a store. `earlier` are
    /// the names of an earlier result here, which are removed or replaced. `proof` is the name of the file
    /// that is written last.
    ///
    /// # Errors
    /// When a file cannot be read, an object not be written, or the upload is interrupted.
    pub fn upload(
        &self,
        from: &Path,
        files: &[String],
        earlier: &[String],
        proof: &str,
    ) -> Result<(), Fault> {
        let address = self.writable()?;
        let store = self.stores().store_of(&address)?;
        let _running = RunningUpload::begin();
        let writing = UploadWriting { from, store: &store, to: &address };
        let result = runtime()?.block_on(writing.all(files, earlier, proof));
        let mut known = self.stores().known();
        files.iter().chain(earlier).for_each(|name| known.forget(&self.join(name)));
        result
    }

    /// Whether results can be written to this folder of a store.
    ///
    /// # Errors
    /// When results are not written to its kind of store, or not with the settings of the environment.
    pub fn can_upload(&self) -> Result<(), Fault> {
        self.writable().map(drop)
    }

    fn writable(&self) -> Result<Address, Fault> {
        let address = self.address()?;
        let (what, hint) = match address.service {
            // The client would look for credentials all the same, and wait for a metadata server that is not
            // there.
            Service::Google if is_unsigned() => (
                "GOOGLE_SKIP_SIGNATURE is set, and nobody writes without credentials",
                "unset it, and give credentials",
            ),
            Service::S3 | Service::Azure | Service::Google => return Ok(address),
            Service::Http => {
                ("results are not written to servers of files", "choose a folder of s3://, gs:// or az://")
            }
        };
        Err(Fault::new(Unsupported, what, Some(hint)))
    }
}

/// Whether the environment says that requests to Google's store carry no credentials.
fn is_unsigned() -> bool {
    let value = GoogleCloudStorageBuilder::from_env().get_config_value(&GoogleConfigKey::SkipSignature);
    value.is_some_and(|v| v == "true")
}

struct UploadWriting<'a> {
    from: &'a Path,
    store: &'a Arc<dyn ObjectStore>,
    to: &'a Address,
}

impl UploadWriting<'_> {
    fn key(&self, name: &str) -> Key {
        name.split('/').fold(self.to.key.clone(), |key, part| key.join(part))
    }

    async fn delete(&self, name: &str) -> object_store::Result<()> {
        let key = self.key(name);
        whole_answer(|| self.store.delete(&key)).await
    }

    async fn all(&self, files: &[String], earlier: &[String], proof: &str) -> Result<(), Fault> {
        go_on()?;
        let is_proof = |name: &&String| name.as_str() == proof;
        for name in earlier.iter().filter(is_proof) {
            self.delete(name).await?;
        }
        let written = self.files(files, proof).await;
        // Of an earlier result: what this one does not have. Without a result: everything.
        let gone = |name: &&String| !is_proof(name) && (written.is_err() || !files.contains(name));
        let mut leftover: Vec<&String> = earlier.iter().filter(gone).collect();
        if written.is_err() {
            leftover.extend(files.iter().filter(|name| !earlier.contains(name)));
        }
        for name in leftover {
            match self.delete(name).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                // The first error says more.
                Err(e) if written.is_ok() => return Err(e.into()),
                Err(_) => {}
            }
        }
        written
    }

    async fn files(&self, files: &[String], proof: &str) -> Result<(), Fault> {
        let others = files.iter().filter(|name| name.as_str() != proof);
        let writes = futures_util::stream::iter(others.map(|name| self.file(name)));
        // All that have begun end by themselves, so that none is left half way.
        let written: Vec<Result<(), Fault>> = writes.buffer_unordered(AT_ONCE).collect().await;
        written.into_iter().collect::<Result<(), Fault>>()?;
        for name in files.iter().filter(|name| name.as_str() == proof) {
            self.file(name).await?;
        }
        Ok(())
    }

    async fn file(&self, name: &str) -> Result<(), Fault> {
        go_on()?;
        let path = self.from.join(name);
        let unreadable = |e: io::Error| Fault::new(e.kind(), format!("{}: {e}", path.display()), None);
        let mut file = File::open(&path).map_err(unreadable)?;
        let size = file.metadata().map_err(unreadable)?.len();
        let part = PART.max(size.div_ceil(MOST_PARTS));
        let mut next = || -> Result<Vec<u8>, Fault> {
            let mut bytes = Vec::new();
            file.by_ref().take(part).read_to_end(&mut bytes).map_err(unreadable)?;
            Ok(bytes)
        };
        let key = self.key(name);
        if size <= part {
            self.store.put(&key, next()?.into()).await?;
            return Ok(());
        }
        let mut upload = self.store.put_multipart(&key).await?;
        let parts = async {
            for _ in 0..size.div_ceil(part) {
                go_on()?;
                upload.put_part(next()?.into()).await?;
            }
            go_on()
        };
        let completed = match parts.await {
            Ok(()) => upload.complete().await.map(drop).map_err(Fault::from),
            Err(fault) => Err(fault),
        };
        if completed.is_err() {
            // The first error says more.
            let _ = upload.abort().await;
        }
        completed
    }
}
