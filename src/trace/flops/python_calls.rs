//! Functions of Python that PyProf marked, such as `torch.nn.functional.linear`: their models, and those of
//! operators that run inside them, or in their backward pass, without recorded inputs.

use crate::flops::Work;
use crate::flops::inputs::InputsOfCall;
use crate::flops::models::{Model, aten_model};

/// Modules whose functions PyProf marks; the longer of two stands first.
const MODULES: [&str; 3] = ["torch.nn.functional.", "torch.", "Tensor."];

/// Module and function of a marked call: `torch.nn.functional` and `linear`; `None` for other operators.
pub fn python_call(name: &str) -> Option<(&str, &str)> {
    let module = MODULES.iter().find(|m| name.starts_with(**m))?;
    let function = &name[module.len()..];
    let is_function =
        !function.is_empty() && function.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_function.then(|| (module.trim_end_matches('.'), function))
}

/// The model of a marked call: that of the operator whose inputs stand in the same order.
pub(super) fn python_model(name: &str) -> Option<Model> {
    match python_call(name)? {
        // The table and the indices stand the other way round.
        ("torch.nn.functional", "embedding") => None,
        (_, "dropout" | "dropout_") => Some(Model::Dropout),
        (_, "softmax" | "log_softmax") => Some(Model::Softmax),
        (_, "layer_norm") => aten_model("native_layer_norm"),
        (_, function) => aten_model(function).or_else(|| aten_model(special(function)?)),
    }
}

/// The operator behind a special method: `add` for `__add__`, `__radd__` and `__iadd__`.
fn special(method: &str) -> Option<&str> {
    let name = method.strip_prefix("__")?.strip_suffix("__")?;
    let plain = |name| match name {
        "truediv" => "div",
        "floordiv" => "floor_divide",
        "mod" => "remainder",
        other => other,
    };
    let inner = name.strip_prefix(['i', 'r']).map(plain).filter(|n| aten_model(n).is_some());
    Some(inner.unwrap_or_else(|| plain(name)))
}

/// The work of an operator without recorded inputs inside a marked call, if it does what the call does.
///
/// `own` is the model of the operator; `name` and `inputs` are those of the call.
pub fn work_inside(own: Model, name: &str, inputs: &InputsOfCall) -> Option<Work> {
    let model = python_model(name).filter(|m| m.family() == own.family())?;
    Some(model.work(inputs))
}

/// The work of an operator that runs in the backward pass of a marked call. A product of the backward pass is
/// as large as that of the forward pass; other functions have the gradient at first, which has the shape of
/// the input.
pub fn work_behind(
    own: Model,
    is_backward_function: bool,
    name: &str,
    inputs: &InputsOfCall,
) -> Option<Work> {
    let model = python_model(name).filter(|m| m.family() == own.family())?;
    let like_forward = [Some(0), Some(0)];
    Some(match (own, model) {
        (Model::Product(_), _) => model.work(inputs),
        (Model::SoftmaxBackward | Model::DropoutBackward, _) => own.work(&inputs.placed(&like_forward)),
        (Model::Norm(norm), Model::LayerNorm) if norm.is_backward => {
            let (input, weight) = (norm.input, norm.weight);
            let last = weight.map_or(input, |w| w.max(input));
            let at = |i: usize| match i {
                i if i == input => Some(0),
                i if Some(i) == weight => Some(2),
                _ => None,
            };
            own.work(&inputs.placed(&(0..=last).map(at).collect::<Vec<_>>()))
        }
        (Model::Broadcasting(..), _) if is_backward_function => own.work(&inputs.placed(&like_forward)),
        (Model::Broadcasting(..) | Model::Unary(..), _) => own.work(inputs),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flops::model;

    fn inputs(dims: &str, types: &[&str]) -> InputsOfCall {
        let types = serde_json::to_string(types).unwrap();
        InputsOfCall::parse(dims, &types, None, Some(r#"["","[5]"]"#)).unwrap()
    }

    #[test]
    fn calls_are_told_from_operators() {
        assert_eq!(python_call("torch.nn.functional.linear"), Some(("torch.nn.functional", "linear")));
        assert_eq!(python_call("Tensor.__add__"), Some(("Tensor", "__add__")));
        for other in
            ["aten::mm", "torch::autograd::AccumulateGrad", "torch.nn.modules.linear.Linear: a", "torch."]
        {
            assert_eq!(python_call(other), None, "{other}");
        }
    }

    #[test]
    fn special_methods_have_the_models_of_their_operators() {
        let flops =
            |name: &str| model(name).map(|m| m.work(&inputs("[[4,5],[5]]", &["float", "float"])).flops);
        for name in ["__add__", "__radd__", "__iadd__", "__truediv__", "__itruediv__", "__rsub__", "mul_"] {
            assert_eq!(flops(&format!("Tensor.{name}")), Some(Some(20)), "{name}");
        }
        assert_eq!(flops("Tensor.__matmul__"), Some(Some(2 * 4 * 5)));
        assert_eq!(flops("Tensor.__getitem__"), None);
    }

    #[test]
    fn operators_inside_have_the_work_of_the_call_if_they_do_the_same() {
        let product = inputs("[[2,3],[3,4]]", &["float", "float"]);
        let of = |op: &str, call: &str| work_inside(model(op).unwrap(), call, &product).and_then(|w| w.flops);
        assert_eq!(of("aten::mm", "Tensor.matmul"), Some(48));
        assert_eq!(of("aten::contiguous", "Tensor.matmul"), None);
        let behind = |op: &str, call: &str, of: &InputsOfCall| {
            work_behind(model(op).unwrap(), op.ends_with("_backward"), call, of).and_then(|w| w.flops)
        };
        assert_eq!(behind("aten::mm", "Tensor.matmul", &product), Some(48));
        let x = inputs("[[4,5]]", &["float"]);
        assert_eq!(
            behind("aten::_log_softmax_backward_data", "torch.nn.functional.log_softmax", &x),
            Some(4 * 20)
        );
        assert_eq!(behind("aten::_masked_scale", "torch.nn.functional.dropout", &x), Some(20));
        assert_eq!(behind("aten::threshold_backward", "torch.relu", &x), Some(20));
        let norm = inputs("[[4,5],[],[5],[5]]", &["float", "ScalarList", "float", "float"]);
        assert_eq!(behind("aten::native_layer_norm_backward", "torch.layer_norm", &norm), Some(11 * 20));
    }
}
