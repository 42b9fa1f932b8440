//! The recorded inputs of an operator.

use crate::flops::dtype::Dtype;
use crate::flops::quantity::product;

/// The inputs of one call, by position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputsOfCall {
    inputs: Vec<CallInput>,
    /// Scalar arguments as text, by position; empty for tensors.
    concrete: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum CallInput {
    Tensor(Tensor),
    List(Vec<Vec<u64>>),
    /// A scalar, a list of scalars, or nothing.
    Other,
}

/// A tensor among the inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    pub dims: Vec<u64>,
    /// Empty if not recorded.
    strides: Vec<i64>,
    /// `None` for a type of unknown size.
    pub(crate) dtype: Option<Dtype>,
}

impl Tensor {
    /// Number of elements.
    pub fn elements(&self) -> Option<u64> {
        product(&self.dims)
    }

    /// Number of distinct elements in memory: a dimension of stride 0 repeats the same ones.
    pub(crate) fn stored(&self) -> Option<u64> {
        if self.strides.len() != self.dims.len() {
            return self.elements();
        }
        let sizes = self.dims.iter().zip(&self.strides);
        let distinct: Vec<u64> =
            sizes.map(|(n, stride)| if *stride == 0 { (*n).min(1) } else { *n }).collect();
        product(&distinct)
    }

    /// Size of the distinct elements, bytes.
    pub fn bytes(&self) -> Option<u64> {
        self.stored()?.checked_mul(self.size()?)
    }

    /// Size of an element, bytes.
    pub fn size(&self) -> Option<u64> {
        self.dtype.map(Dtype::size)
    }

    /// A dimension, counted from the end if negative.
    pub(crate) fn dim(&self, at: i64) -> Option<u64> {
        let at = if at < 0 { at.checked_add(self.dims.len() as i64)? } else { at };
        self.dims.get(usize::try_from(at).ok()?).copied()
    }
}

impl InputsOfCall {
    /// Reads the JSON texts of `Input Dims`, `Input type`, `Input Strides` and `Concrete Inputs`. `None` if
    /// shapes or types are missing, or cannot be read.
    pub fn parse(dims: &str, types: &str, strides: Option<&str>, concrete: Option<&str>) -> Option<Self> {
        let dims: Vec<Dims> = serde_json::from_str(dims).ok()?;
        let types: Vec<String> = serde_json::from_str(types).ok()?;
        let strides: Vec<Dims> = strides.and_then(|s| serde_json::from_str(s).ok()).unwrap_or_default();
        let concrete = concrete.and_then(|c| serde_json::from_str(c).ok()).unwrap_or_default();
        let mut inputs = Vec::with_capacity(dims.len());
        for (i, (dims, ty)) in dims.into_iter().zip(types).enumerate() {
            inputs.push(match (dims, ty.as_str()) {
                (_, "" | "Scalar" | "ScalarList" | "GenericList") => CallInput::Other,
                (Dims::List(list), _) => CallInput::List(list),
                (Dims::Deep(_), _) => CallInput::Other,
                // The shapes of a list may be missing.
                (Dims::Plain(_), "TensorList") => CallInput::List(Vec::new()),
                (Dims::Plain(dims), ty) => {
                    let dims = dims.into_iter().map(|d| u64::try_from(d).ok()).collect::<Option<_>>()?;
                    let strides = match strides.get(i) {
                        Some(Dims::Plain(strides)) => strides.clone(),
                        _ => Vec::new(),
                    };
                    CallInput::Tensor(Tensor { dims, strides, dtype: Dtype::named(ty) })
                }
            });
        }
        Some(Self { inputs, concrete })
    }

    /// Some inputs at new positions, each by its position here; `None` is nothing. Scalars are left out.
    pub(crate) fn placed(&self, from: &[Option<usize>]) -> Self {
        let input =
            |at: &Option<usize>| at.and_then(|at| self.inputs.get(at)).cloned().unwrap_or(CallInput::Other);
        Self { inputs: from.iter().map(input).collect(), concrete: Vec::new() }
    }

    /// Number of inputs, scalars included.
    pub(crate) fn count(&self) -> usize {
        self.inputs.len()
    }

    /// The tensor at a position; `None` if there is something else.
    pub fn tensor(&self, at: usize) -> Option<&Tensor> {
        match self.inputs.get(at)? {
            CallInput::Tensor(tensor) => Some(tensor),
            CallInput::List(_) | CallInput::Other => None,
        }
    }

    /// All tensors with their positions.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (usize, &Tensor)> {
        (0..self.inputs.len()).filter_map(|i| Some((i, self.tensor(i)?)))
    }

    /// Total number of elements of the list of tensors at a position; `None` if its shapes are not recorded.
    pub(crate) fn list_elements(&self, at: usize) -> Option<u64> {
        match self.inputs.get(at)? {
            CallInput::List(list) if !list.is_empty() => {
                list.iter().try_fold(0u64, |all, dims| all.checked_add(product(dims)?))
            }
            _ => None,
        }
    }

    /// A scalar argument as text; `None` for tensors and missing arguments.
    pub(crate) fn concrete(&self, at: usize) -> Option<&str> {
        self.concrete.get(at).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// A scalar argument that is a truth value.
    pub(crate) fn flag(&self, at: usize) -> Option<bool> {
        match self.concrete(at)? {
            "True" | "true" => Some(true),
            "False" | "false" => Some(false),
            _ => None,
        }
    }

    /// A scalar argument that is a number.
    pub(crate) fn number(&self, at: usize) -> Option<f64> {
        self.concrete(at)?.parse().ok()
    }

    /// A scalar argument that is an integer.
    pub(crate) fn int(&self, at: usize) -> Option<i64> {
        self.concrete(at)?.parse().ok()
    }

    /// A scalar argument that is a list of integers, such as `[1, 1]`.
    pub(crate) fn ints(&self, at: usize) -> Option<Vec<i64>> {
        items(self.concrete(at)?)?.iter().map(|item| item.parse().ok()).collect()
    }

    /// A scalar argument that is a list of truth values.
    pub(crate) fn flags(&self, at: usize) -> Option<Vec<bool>> {
        let flag = |item: &&str| match *item {
            "True" | "true" => Some(true),
            "False" | "false" => Some(false),
            _ => None,
        };
        items(self.concrete(at)?)?.iter().map(flag).collect()
    }
}

/// The items of a list as text.
fn items(text: &str) -> Option<Vec<&str>> {
    let inside = text.strip_prefix('[')?.strip_suffix(']')?;
    Some(inside.split(',').map(str::trim).filter(|item| !item.is_empty()).collect())
}

/// The shape of one input: of a tensor, or of each tensor of a list.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Dims {
    Plain(Vec<i64>),
    List(Vec<Vec<u64>>),
    /// Nested deeper, of which nothing is used.
    Deep(serde::de::IgnoredAny),
}

impl Default for Dims {
    fn default() -> Self {
        Dims::Plain(Vec::new())
    }
}
