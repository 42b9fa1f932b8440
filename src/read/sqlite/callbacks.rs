//! Names of API calls by CUPTI's callback ids, which are all that nvprof records of them
//! (`data/cupti_callbacks.toml`).

use hashbrown::HashMap;
use std::sync::LazyLock;

const LIST: &str = include_str!("../../../data/cupti_callbacks.toml");

/// The two interfaces, which count on their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallbackApi {
    Runtime,
    Driver,
}

#[derive(serde::Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Callbacks {
    runtime: HashMap<String, String>,
    driver: HashMap<String, String>,
}

static CALLBACKS: LazyLock<Callbacks> = LazyLock::new(|| toml::from_str(LIST).unwrap_or_default());

/// The function behind a callback id.
pub(crate) fn function(api: CallbackApi, callback: i64) -> Option<&'static str> {
    let callbacks = &*CALLBACKS;
    let list = match api {
        CallbackApi::Runtime => &callbacks.runtime,
        CallbackApi::Driver => &callbacks.driver,
    };
    list.get(&callback.to_string()).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_read() {
        let list: Callbacks = toml::from_str(LIST).expect("valid TOML");
        let entries =
            || list.runtime.iter().map(|e| (e, "cuda")).chain(list.driver.iter().map(|e| (e, "cu")));
        for ((id, name), start) in entries() {
            assert!(
                id.parse::<i64>().is_ok_and(|n| n > 0 && n.to_string() == *id) && name.starts_with(start),
                "{id}"
            );
        }
        let mut names: Vec<&String> = list.runtime.values().collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|w| w[0] != w[1]), "a name stands twice");
        assert_eq!(function(CallbackApi::Runtime, 211), Some("cudaLaunchKernel"));
        assert_eq!(function(CallbackApi::Driver, 211), None);
    }
}
