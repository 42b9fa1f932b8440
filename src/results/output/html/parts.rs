//! The files that the page is made of: its HTML, its style, the library of the charts, and its modules.

use std::io::{self, Write};

/// Names of files in `script`, each with its text.
macro_rules! modules {
    ($($name:literal),* $(,)?) => { &[$(($name, include_str!(concat!("script/", $name)))),*] };
}

pub(super) const PAGE: &str = include_str!("page.html");
/// The content security policy, which `policy` derives from the other parts.
pub(super) const POLICY: &str = include_str!("policy.txt");
const STYLE: &str = include_str!("page.css");
const PLOTLY: &str = include_str!("plotly/plotly-cartesian.min.js");
/// Modules of the page by their names; each is below those that it imports.
pub(super) const MODULES: &[(&str, &str)] = modules![
    "dom.js",
    "format.js",
    "data.js",
    "change.js",
    "chart_access.js",
    "theme.js",
    "chart.js",
    "source.js",
    "table.js",
    "section.js",
    "against.js",
    "canvas.js",
    "tree.js",
    "flame.js",
    "roofline.js",
    "sections/across.js",
    "sections/breakdown.js",
    "timeline/cause_places.js",
    "timeline/model.js",
    "timeline/geometry.js",
    "timeline/input.js",
    "timeline/paint.js",
    "timeline/timeline.js",
    "timeline/section.js",
    "sections/causes.js",
    "sections/experts.js",
    "sections/fabric.js",
    "sections/kernels.js",
    "sections/memory.js",
    "sections/mesh.js",
    "sections/operators.js",
    "sections/pipeline.js",
    "sections/recording.js",
    "sections/roles.js",
    "sections/time.js",
    "settings.js",
    "menu.js",
    "start.js",
];

/// Writes a part of the page and fills in the files whose placeholders, lines `{{name}}`, are in it.
pub(super) fn fill(part: &str, out: &mut impl Write) -> io::Result<()> {
    for line in part.split_inclusive('\n') {
        match line.trim() {
            "{{policy}}" => out.write_all(POLICY.as_bytes())?,
            "{{style}}" => out.write_all(STYLE.as_bytes())?,
            "{{plotly}}" => out.write_all(PLOTLY.as_bytes())?,
            "{{modules}}" => MODULES.iter().try_for_each(|(name, text)| {
                writeln!(out, "<script type=\"text/plain\" data-module=\"page/{name}\">\n{text}</script>")
            })?,
            _ => out.write_all(line.as_bytes())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_script_of_ours_can_end_its_own_element() {
        for (_, script) in MODULES.iter().chain([&("plotly", PLOTLY)]) {
            assert!(!script.to_lowercase().contains("</script"));
        }
    }

    #[test]
    fn a_module_imports_only_what_is_above_it() {
        for (i, (name, text)) in MODULES.iter().enumerate() {
            for imported in text.split(" from \"page/").skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(
                    MODULES[..i].iter().any(|(above, _)| above == &imported),
                    "{name} imports {imported}"
                );
            }
        }
    }
}
