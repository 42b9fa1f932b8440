//! Peak rates of links (`data/links.toml`, `--links`, `--nic-gbit`), for what is achieved of them.

use serde::Deserialize;

const BUILTIN: &str = include_str!("../../../data/links.toml");

/// Which part of a path a rate is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LinkPath {
    /// From a GPU to the others of its host.
    Nvlink,
    /// One NIC.
    Nic,
}

/// The rate of one product.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkRate {
    /// Name for tables.
    pub(crate) name: String,
    path: LinkPath,
    /// Parts of recorded names of devices, one of which a device must contain.
    #[serde(rename = "match")]
    parts: Vec<String>,
    /// In one direction.
    pub(crate) gb_per_s: f64,
    #[serde(default)]
    #[allow(dead_code, reason = "for readers of the file")]
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinksFile {
    #[serde(default)]
    link: Vec<LinkRate>,
}

/// Known links: those of the user's file before the built-in ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkRates(Vec<Vec<LinkRate>>);

fn parse(text: &str) -> Result<Vec<LinkRate>, String> {
    let file: LinksFile = toml::from_str(text).map_err(|e| e.message().to_string())?;
    for link in &file.link {
        if !(link.gb_per_s.is_finite() && link.gb_per_s > 0.0) {
            return Err(format!("link `{}`: expected a rate above 0", link.name));
        }
        if link.parts.iter().all(String::is_empty) {
            return Err(format!(
                "link `{}`: expected a part of the name of its device in `match`",
                link.name
            ));
        }
    }
    Ok(file.link)
}

impl LinkRates {
    /// The built-in links, behind those of a file.
    ///
    /// # Errors
    /// Says what is wrong with the file.
    pub(crate) fn with(file: Option<&str>) -> Result<Self, String> {
        let own = file.map(parse).transpose()?;
        Ok(Self(own.into_iter().chain([parse(BUILTIN)?]).collect()))
    }

    /// The rate of a path of a device; `None` if no entry matches.
    pub(crate) fn of(&self, device: &str, path: LinkPath) -> Option<&LinkRate> {
        let name = device.to_ascii_lowercase();
        let length = |link: &LinkRate| {
            let parts = link.parts.iter().filter(|p| !p.is_empty() && name.contains(&p.to_ascii_lowercase()));
            parts.map(String::len).max()
        };
        self.0.iter().find_map(|file| {
            let found = file.iter().filter(|l| l.path == path).filter_map(|l| Some((length(l)?, l)));
            // Of equally long matches the first entry counts.
            found.reduce(|a, b| if b.0 > a.0 { b } else { a }).map(|(_, link)| link)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_known_by_the_device_and_never_guessed() {
        let known = LinkRates::with(None).unwrap();
        let rate = |device: &str| known.of(device, LinkPath::Nvlink).map(|l| l.gb_per_s);
        assert_eq!(rate("NVIDIA H100 80GB HBM3"), Some(450.0));
        assert_eq!(rate("NVIDIA A100-SXM4-80GB"), Some(300.0));
        assert_eq!(rate("Tesla V100-SXM2-32GB"), Some(150.0));
        for device in ["NVIDIA B200", "NVIDIA GB200", "NVIDIA GB300", "NVIDIA B300 SXM6 AC"] {
            assert_eq!(rate(device), Some(900.0), "{device}");
        }
        for device in ["NVIDIA H20", "NVIDIA H20-3e", "NVIDIA H200", "NVIDIA H200 NVL"] {
            assert_eq!(rate(device), Some(450.0), "{device}");
        }
        assert_eq!((rate("AMD Instinct MI308X"), rate("NVIDIA GB10")), (None, None));
        // Sold with several links, or none.
        assert_eq!((rate("NVIDIA H100"), rate("NVIDIA H100 PCIe"), rate("NVIDIA L4")), (None, None, None));
        assert_eq!(known.of("NVIDIA H100 80GB HBM3", LinkPath::Nic), None);
    }

    #[test]
    fn entries_of_the_user_come_first_and_are_checked() {
        let file = "[[link]]\nname = 'NDR'\npath = 'nic'\nmatch = ['H100']\ngb_per_s = 50\n";
        let rates = LinkRates::with(Some(file)).unwrap();
        assert_eq!(rates.of("NVIDIA H100", LinkPath::Nic).map(|l| l.gb_per_s), Some(50.0));
        let wrong = LinkRates::with(Some(&file.replace("50", "-1"))).unwrap_err();
        assert_eq!(wrong, "link `NDR`: expected a rate above 0");
        assert!(LinkRates::with(Some("[[link]]\nname = 'x'\n")).is_err());
    }
}
