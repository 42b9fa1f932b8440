//! What a kernel is for in a model that serves requests, from its name: the parts of a transformer layer, its
//! caches and the choice of tokens. Categories are those of [`Category`], with parts where engines have
//! kernels of their own. The rules are `[[serving]]` in `data/kernel_categories.toml`.

use crate::kernel::category::{Category, RawCategoryRule, file};
use crate::kernel_name::patterns::NamePatterns;
use std::sync::OnceLock;

/// A category, and a part of it; empty for most.
pub type ServingCategory = (Category, &'static str);

/// The category of communication, which kernels of that class have whatever their name.
pub const COMMUNICATION: ServingCategory = (Category::Communication, "");
const OTHER: ServingCategory = (Category::Unknown, "");

/// Patterns, and the categories for which they stand.
type ServingPatterns = (NamePatterns, &'static [RawCategoryRule]);

fn read() -> Result<ServingPatterns, String> {
    let rules = &file()?.serving;
    Ok((NamePatterns::in_any_case(rules.iter().map(|r| &r.name))?, rules))
}

/// The category of a kernel, copy or set by its name: the first rule that matches, in any case of letters,
/// decides.
pub fn serving_category(name: &str) -> ServingCategory {
    static MADE: OnceLock<Option<ServingPatterns>> = OnceLock::new();
    // The file is part of the program; a test reads it.
    let Some((set, rules)) = MADE.get_or_init(|| read().ok()) else { return OTHER };
    let rule = set.first(name).and_then(|i| rules.get(i));
    rule.and_then(|rule| Some((Category::named(&rule.category)?, rule.sub.as_str()))).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_decides_its_examples() {
        let (set, rules) = read().unwrap();
        assert!(rules.iter().any(|r| r.category == COMMUNICATION.0.name()));
        for (i, rule) in rules.iter().enumerate() {
            assert!(!rule.examples.is_empty(), "{}", rule.name);
            for example in &rule.examples {
                assert!(set.matches(example).iter().any(|id| id.as_usize() == i), "{example}");
                let (category, part) = serving_category(example);
                assert_eq!((category.name(), part), (rule.category.as_str(), rule.sub.as_str()), "{example}");
            }
        }
        assert_eq!(serving_category("my_kernel"), OTHER);
    }
}
