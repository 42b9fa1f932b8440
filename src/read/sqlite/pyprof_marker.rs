//! What PyProf's markers say. PyProf wraps the functions of PyTorch, and writes Python dicts as texts of NVTX
//! ranges:
//!
//! ```text
//!   {'mod': 'torch', 'op': 'mm', 'args': [{'name': '', 'type': 'tensor', 'shape': (2, 3), 'dtype': 'float32'}, ...]}
//!   {'traceMarker': ['main.py:12', 'model.py:7']}       outermost first
//!   {'strRepr': 'Linear(in_features=3, out_features=4)'}
//! ```

use super::literal::Literal;

/// What a marker says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PyProfMarker {
    /// A call of a function of Python.
    Call(MarkedCall),
    /// Where the program is, innermost first, joined by `;`.
    Stack(String),
    /// What `repr` says about a module.
    Module(String),
}

/// A call of a function of Python; its inputs as JSON lists with an entry for each, as Kineto writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MarkedCall {
    /// Module and function: `torch.nn.functional.linear`.
    pub(crate) name: String,
    pub(crate) dims: String,
    pub(crate) types: String,
    /// Scalars as text; empty for tensors.
    pub(crate) concrete: String,
}

/// A marker that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DamagedMarker;

/// The marker of a text; `None` if it is not one of PyProf.
pub(crate) fn marker(text: &str) -> Option<Result<PyProfMarker, DamagedMarker>> {
    const KEYS: [&str; 3] = ["'mod':", "'traceMarker':", "'strRepr':"];
    if !text.starts_with("{'") || !KEYS.iter().any(|key| text.contains(key)) {
        return None;
    }
    Some(Literal::parse(text).and_then(|dict| read(&dict)).ok_or(DamagedMarker))
}

fn read(dict: &Literal) -> Option<PyProfMarker> {
    if let Some(frames) = dict.get("traceMarker") {
        let mut frames = frames.as_list()?.iter().map(Literal::as_text).collect::<Option<Vec<_>>>()?;
        frames.reverse();
        return Some(PyProfMarker::Stack(frames.join(";")));
    }
    if let Some(module) = dict.get("strRepr") {
        return Some(PyProfMarker::Module(module.as_text()?.to_string()));
    }
    let (module, function) = (dict.get("mod")?.as_text()?, dict.get("op")?.as_text()?);
    let mut args: Vec<MarkedInput> = dict.get("args")?.as_list()?.iter().map(input).collect::<Option<_>>()?;
    // The old form `add(alpha, other)` has the scalar first.
    let has_scalar_first = args.get(1).zip(args.get(2)).is_some_and(|(a, b)| !a.is_tensor && b.is_tensor);
    if ["add", "sub"].contains(&function.trim_end_matches('_')) && has_scalar_first {
        args.swap(1, 2);
    }
    let json = |texts: Vec<&str>| serde_json::to_string(&texts).unwrap_or_default();
    let dims: Vec<&str> = args.iter().map(|a| a.dims.as_str()).collect();
    Some(PyProfMarker::Call(MarkedCall {
        name: format!("{module}.{function}"),
        dims: format!("[{}]", dims.join(",")),
        types: json(args.iter().map(|a| a.type_name.as_str()).collect()),
        concrete: json(args.iter().map(|a| a.concrete.as_str()).collect()),
    }))
}

struct MarkedInput {
    is_tensor: bool,
    dims: String,
    type_name: String,
    concrete: String,
}

fn input(arg: &Literal) -> Option<MarkedInput> {
    let kind = arg.get("type")?.as_text()?;
    if let Some(shape) = arg.get("shape") {
        let shape =
            shape.as_list()?.iter().map(|n| n.as_int().map(|n| n.to_string())).collect::<Option<Vec<_>>>()?;
        let type_name = dtype(arg.get("dtype").and_then(Literal::as_text).unwrap_or_default());
        let dims = format!("[{}]", shape.join(","));
        return Some(MarkedInput { is_tensor: true, dims, type_name, concrete: String::new() });
    }
    let type_name = match kind {
        "int" | "float" | "bool" => "Scalar",
        "tuple" | "list" => "ScalarList",
        _ => "",
    };
    let concrete = arg.get("value").map(scalar).unwrap_or_default();
    Some(MarkedInput { is_tensor: false, dims: "[]".to_string(), type_name: type_name.to_string(), concrete })
}

/// A scalar as `Concrete Inputs` has it.
fn scalar(value: &Literal) -> String {
    match value {
        Literal::None | Literal::Dict(_) => String::new(),
        Literal::Bool(true) => "True".to_string(),
        Literal::Bool(false) => "False".to_string(),
        Literal::Number(text) => (*text).to_string(),
        Literal::Text(text) => text.clone(),
        Literal::List(items) => format!("[{}]", items.iter().map(scalar).collect::<Vec<_>>().join(", ")),
    }
}

/// Kineto's name of an element type of Python.
fn dtype(name: &str) -> String {
    let name = name.strip_prefix("torch.").unwrap_or(name);
    match name {
        "float16" | "half" => "c10::Half",
        "bfloat16" => "c10::BFloat16",
        "float32" => "float",
        "float64" => "double",
        "int64" => "long",
        "int32" => "int",
        "int16" => "short",
        "int8" => "signed char",
        "uint8" => "unsigned char",
        "complex64" => "c10::complex<float>",
        "complex128" => "c10::complex<double>",
        other => other,
    }
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> [String; 4] {
        match marker(text) {
            Some(Ok(PyProfMarker::Call(c))) => [c.name, c.dims, c.types, c.concrete],
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn calls_have_shapes_types_and_scalars() {
        let linear = "{'mod': 'torch.nn.functional', 'op': 'linear', 'args': [{'name': '', 'type': 'tensor', \
            'shape': (35, 20), 'dtype': 'float16'}, {'name': '', 'type': 'tensor', 'shape': (600,), 'dtype': \
            'int64'}, {'name': 'p', 'type': 'float', 'value': 0.5}, {'name': '', 'type': 'NoneType', \
            'value': None}, {'name': '', 'type': 'tuple', 'value': (200,)}]}";
        let expected = [
            "torch.nn.functional.linear",
            "[[35,20],[600],[],[],[]]",
            r#"["c10::Half","long","Scalar","","ScalarList"]"#,
            r#"["","","0.5","","[200]"]"#,
        ];
        assert_eq!(call(linear), expected);
    }

    #[test]
    fn the_scalar_of_old_additions_comes_last() {
        let add = "{'mod': 'Tensor', 'op': 'add_', 'args': [{'name': '', 'type': 'tensor', 'shape': (4,), \
            'dtype': 'float32'}, {'name': '', 'type': 'int', 'value': -20}, {'name': '', 'type': 'tensor', \
            'shape': (4,), 'dtype': 'float32'}]}";
        let [name, dims, _, concrete] = call(add);
        assert_eq!([name.as_str(), &dims, &concrete], ["Tensor.add_", "[[4],[4],[]]", r#"["","","-20"]"#]);
    }

    #[test]
    fn stacks_are_innermost_first_and_damage_is_told_from_other_texts() {
        let stack = marker("{'traceMarker': ['a.py:1', 'b.py:2']}");
        assert_eq!(stack, Some(Ok(PyProfMarker::Stack("b.py:2;a.py:1".to_string()))));
        let module = marker("{'strRepr': 'Linear()'}");
        assert_eq!(module, Some(Ok(PyProfMarker::Module("Linear()".to_string()))));
        for damaged in
            ["{'mod': 'torch', 'op': 'mm', 'args': [{'na", "{'mod': 'torch'}", "{'traceMarker': [1]}"]
        {
            assert_eq!(marker(damaged), Some(Err(DamagedMarker)), "{damaged}");
        }
        for other in ["{'step': 3}", "forward", "", "mm, seq = 3"] {
            assert_eq!(marker(other), None, "{other}");
        }
    }
}
