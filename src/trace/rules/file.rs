//! The file of kernel rules, as TOML has it, and the rules that its lines stand for.

use crate::category::Class;
use crate::collective::KernelRole;
use crate::rules::rule::{ClassRule, DEFAULT_REASON, FUSED, LazyRegex};
use crate::timeline::WorkClass;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassRulesFile {
    #[serde(default)]
    pub(super) rule: Vec<RawClassRule>,
    #[serde(default)]
    pub(super) library: Vec<RawLibrary>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawClassRule {
    reason: String,
    class: String,
    role: Option<String>,
    category: Option<Vec<String>>,
    name: Option<String>,
    any: Option<Vec<String>>,
    not_name: Option<String>,
    arg: Option<String>,
    op: Option<String>,
}

/// The kernels of one library: of each role an expression on the name of the function.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLibrary {
    pub(super) library: String,
    reason: Option<String>,
    any: Vec<String>,
    path: Option<String>,
    #[serde(default)]
    whole: bool,
    pub(super) roles: BTreeMap<String, String>,
    #[serde(default)]
    #[allow(dead_code, reason = "for readers of the file")]
    pub(super) source: String,
}

fn lower_words(words: Vec<String>) -> Arc<[String]> {
    words.iter().map(|w| w.to_ascii_lowercase()).collect()
}

pub(super) fn rule(raw: RawClassRule) -> Result<ClassRule, String> {
    let RawClassRule { reason, class, role, category, name, any, not_name, arg, op } = raw;
    let pattern = |text: Option<String>| text.map(LazyRegex::new);
    let work = WorkClass::ALL.into_iter().find(|w| w.name() == class);
    let categories = category.map(|list| {
        list.iter()
            .map(|c| match c.as_str() {
                "kernel" => Ok(Class::Kernel),
                "memcpy" => Ok(Class::Memcpy),
                "memset" => Ok(Class::Memset),
                other => Err(format!("rule `{reason}`: expected kernel, memcpy or memset, found `{other}`")),
            })
            .collect::<Result<Vec<_>, _>>()
    });
    if arg.as_deref().is_some_and(|a| a != "Collective name") {
        return Err(format!("rule `{reason}`: the only argument a rule can ask for is `Collective name`"));
    }
    let role = role.map(|name| role_named(&name, &reason)).transpose()?;
    let work = work.ok_or_else(|| {
        format!(
            "rule `{reason}`: expected compute, communication, memory or fused_communication, found \
             `{class}`"
        )
    })?;
    if let Some(other) = role.map(class_of).filter(|of_role| *of_role != work) {
        return Err(format!("rule `{reason}`: kernels of this role are {}, not {class}", other.name()));
    }
    Ok(ClassRule {
        work,
        role,
        any: lower_words(any.unwrap_or_default()),
        category: categories.transpose()?,
        name: pattern(name),
        not_name: pattern(not_name),
        path: None,
        function: None,
        needs_collective_arg: arg.is_some(),
        op: pattern(op),
        reason,
    })
}

fn role_named(name: &str, of: &str) -> Result<KernelRole, String> {
    KernelRole::named(name).ok_or_else(|| {
        let known: Vec<&str> = KernelRole::ALL.iter().map(|role| role.name()).collect();
        format!("rule `{of}`: `{name}` is no role; roles are {}", known.join(", "))
    })
}

fn class_of(role: KernelRole) -> WorkClass {
    match role.kind() {
        _ if role.is_fused() => WorkClass::Fused,
        Some(_) => WorkClass::Communication,
        None => WorkClass::Compute,
    }
}

/// The rules of a library, one for each role. `none` is a kernel that has no part in an exchange.
pub(super) fn library_rules(raw: RawLibrary) -> Result<Vec<ClassRule>, String> {
    let RawLibrary { library, reason, any, path, whole, roles, .. } = raw;
    let any = lower_words(any);
    let pattern = |text: &str| LazyRegex::new(format!("(?-u){text}"));
    let path = path.as_deref().map(|text| Arc::new(pattern(text)));
    let role = |name: &String| (name != "none").then(|| role_named(name, &library)).transpose();
    let mut roles =
        roles.iter().map(|(name, text)| Ok((role(name)?, text))).collect::<Result<Vec<_>, String>>()?;
    roles.sort();
    roles
        .into_iter()
        .map(|(role, text)| {
            let work = role.map_or(WorkClass::Compute, class_of);
            let reason = match work {
                WorkClass::Fused => FUSED.to_string(),
                WorkClass::Communication => {
                    reason.clone().ok_or_else(|| format!("library `{library}`: exchanges need a `reason`"))?
                }
                _ => DEFAULT_REASON.to_string(),
            };
            Ok(ClassRule {
                reason,
                work,
                role,
                any: any.clone(),
                category: None,
                name: whole.then(|| pattern(text)),
                not_name: None,
                path: path.clone(),
                function: (!whole).then(|| pattern(&format!("^(?:{text})$"))),
                needs_collective_arg: false,
                op: None,
            })
        })
        .collect()
}
