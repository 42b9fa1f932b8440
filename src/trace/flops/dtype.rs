//! Element types, as `Input type` names them.

/// An element type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    Float64,
    Float32,
    Float16,
    BFloat16,
    /// Any of the 8-bit floating-point types.
    Float8,
    /// Two 4-bit numbers in one byte, which is one element of the recorded shape.
    Float4Pair,
    Int64,
    Int32,
    Int16,
    /// Signed or unsigned.
    Int8,
    Bool,
    /// Complex numbers of this many bytes.
    Complex(u8),
}

/// Number types for which devices have a peak rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Number {
    Float64,
    Float32,
    Float16,
    BFloat16,
    Float8,
    Float4,
    Int8,
}

impl Number {
    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Number::Float64 => "fp64",
            Number::Float32 => "fp32",
            Number::Float16 => "fp16",
            Number::BFloat16 => "bf16",
            Number::Float8 => "fp8",
            Number::Float4 => "fp4",
            Number::Int8 => "int8",
        }
    }
}

impl Dtype {
    /// The type of a name in `Input type`; `None` for scalars, lists and unknown names.
    pub(crate) fn named(name: &str) -> Option<Dtype> {
        Some(match name {
            "double" => Dtype::Float64,
            "float" => Dtype::Float32,
            "c10::Half" => Dtype::Float16,
            "c10::BFloat16" => Dtype::BFloat16,
            "c10::Float4_e2m1fn_x2" => Dtype::Float4Pair,
            "long" | "long int" | "unsigned long" => Dtype::Int64,
            "int" | "unsigned int" | "c10::qint32" => Dtype::Int32,
            "short" | "short int" | "unsigned short" => Dtype::Int16,
            "unsigned char" | "signed char" | "c10::qint8" | "c10::quint8" => Dtype::Int8,
            "bool" => Dtype::Bool,
            "c10::complex<c10::Half>" => Dtype::Complex(4),
            "c10::complex<float>" => Dtype::Complex(8),
            "c10::complex<double>" => Dtype::Complex(16),
            _ if name.starts_with("c10::Float8_") => Dtype::Float8,
            _ => return None,
        })
    }

    /// The type of a `torch.dtype` argument, which is recorded as its number (`c10::ScalarType`).
    pub(crate) fn numbered(number: &str) -> Option<Dtype> {
        Some(match number {
            "0" | "1" | "12" | "13" => Dtype::Int8,
            "2" => Dtype::Int16,
            "3" | "14" => Dtype::Int32,
            "4" => Dtype::Int64,
            "5" => Dtype::Float16,
            "6" => Dtype::Float32,
            "7" => Dtype::Float64,
            "8" => Dtype::Complex(4),
            "9" => Dtype::Complex(8),
            "10" => Dtype::Complex(16),
            "11" => Dtype::Bool,
            "15" => Dtype::BFloat16,
            "23" | "24" | "25" | "26" => Dtype::Float8,
            _ => return None,
        })
    }

    /// Size of an element, bytes.
    pub(crate) fn size(self) -> u64 {
        match self {
            Dtype::Float64 | Dtype::Int64 => 8,
            Dtype::Float32 | Dtype::Int32 => 4,
            Dtype::Float16 | Dtype::BFloat16 | Dtype::Int16 => 2,
            Dtype::Float8 | Dtype::Float4Pair | Dtype::Int8 | Dtype::Bool => 1,
            Dtype::Complex(bytes) => u64::from(bytes),
        }
    }

    /// Numbers per element of the recorded shape.
    pub(crate) fn numbers(self) -> u64 {
        if self == Dtype::Float4Pair { 2 } else { 1 }
    }

    /// The number type of its arithmetic; `None` for types without a peak rate of their own.
    pub(crate) fn number(self) -> Option<Number> {
        Some(match self {
            Dtype::Float64 => Number::Float64,
            Dtype::Float32 => Number::Float32,
            Dtype::Float16 => Number::Float16,
            Dtype::BFloat16 => Number::BFloat16,
            Dtype::Float8 => Number::Float8,
            Dtype::Float4Pair => Number::Float4,
            Dtype::Int8 => Number::Int8,
            Dtype::Int64 | Dtype::Int32 | Dtype::Int16 | Dtype::Bool | Dtype::Complex(_) => return None,
        })
    }

    /// PyTorch's promotion of two types, as far as sizes need it: the larger kind wins, then the larger type.
    pub(crate) fn promoted(self, other: Dtype) -> Dtype {
        let kind = |d: Dtype| match d {
            Dtype::Bool => 0,
            Dtype::Int64 | Dtype::Int32 | Dtype::Int16 | Dtype::Int8 => 1,
            Dtype::Complex(_) => 3,
            _ => 2,
        };
        match (self, other) {
            (Dtype::Float16, Dtype::BFloat16) | (Dtype::BFloat16, Dtype::Float16) => Dtype::Float32,
            _ if (kind(other), other.size()) > (kind(self), self.size()) => other,
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_recorded_names() {
        let size = |name| Dtype::named(name).map(Dtype::size);
        assert_eq!(size("c10::BFloat16"), Some(2));
        assert_eq!(size("long int"), Some(8));
        assert_eq!(size("c10::Float8_e4m3fn"), Some(1));
        assert_eq!(size("c10::complex<double>"), Some(16));
        assert_eq!(size("Scalar"), None);
        assert_eq!(size(""), None);
    }

    #[test]
    fn types_are_promoted_as_in_pytorch() {
        assert_eq!(Dtype::Int64.promoted(Dtype::Float16), Dtype::Float16);
        assert_eq!(Dtype::Float16.promoted(Dtype::BFloat16), Dtype::Float32);
        assert_eq!(Dtype::Bool.promoted(Dtype::Int8), Dtype::Int8);
        assert_eq!(Dtype::Float64.promoted(Dtype::Float32), Dtype::Float64);
    }
}
