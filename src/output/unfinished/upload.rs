//! Folders that are written for a store: in a temporary folder, and uploaded from there.

use super::folder::UnfinishedFolder;
use super::writing;
use crate::output::paths::entries;
use crate::output::place::{FolderError, OutputPlace, is_ours};
use std::path::PathBuf;

impl UnfinishedFolder {
    /// Uploads it to its place in a store.
    pub(super) fn upload(self, place: &OutputPlace) -> Result<(), FolderError> {
        let io = |source| FolderError::Io { path: place.shown().to_string(), source };
        // The place may have changed since the run began.
        place.replaceable()?;
        let earlier = place.target.all_names().map_err(|fault| io(fault.into()))?;
        let earlier: Vec<String> = earlier.into_iter().filter(|name| is_ours(self.layout, name)).collect();
        let below = |folder: &str| {
            let found = entries(&self.path.join(folder)).into_iter().map(|(_, name)| format!("{folder}/{name}"));
            found.collect::<Vec<_>>()
        };
        let mut names: Vec<String> = self.layout.folders.iter().flat_map(|(folder, _)| below(folder)).collect();
        let has = |name: &&&str| self.path.join(name).is_file();
        names.extend(self.layout.files.iter().filter(has).map(|name| name.to_string()));
        names.sort();
        let uploaded = place.target.upload(&self.path, &names, &earlier, self.layout.proof);
        uploaded.map_err(|fault| io(fault.into()))?;
        writing().placed = Some(PathBuf::from(place.shown()));
        Ok(())
    }
}
