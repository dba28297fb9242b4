//! Values with fields and methods that the caller defines.

use std::any::Any;
use std::fmt;

use crate::args::Args;
use crate::error::Failure;
use crate::meter::Meter;
use crate::signature::Signature;
use crate::types::Type;
use crate::value::Value;

/// What stands behind a type with a name.
#[derive(Debug)]
pub enum Underlying {
    /// `type Values map[string]interface{}`: a map, list, string, number.
    Value(Value),
    /// A struct that is passed by value.
    Struct,
    /// A pointer to a struct.
    Pointer,
    /// A function: [`Object::method`] and [`Object::call`] with an empty name are its own.
    Func,
}

/// A value of a type with a name: a struct, a pointer to one, or a map or list with methods.
///
/// An object holds no value that can come to hold the object, except maps that are changed through
/// [`Call`](crate::Call): nothing else frees circles.
pub trait Object: Any + fmt::Debug {
    /// The type: [`Type::Named`], beginning with `*` if it is a pointer.
    fn type_of(&self) -> Type;

    /// What stands behind the type.
    fn underlying(&self) -> Underlying;

    /// The names of the fields of a struct, in their order: printing shows them.
    fn fields(&self) -> &[&str] {
        &[]
    }

    /// A field of a struct or of what a pointer points to.
    fn field(&self, name: &str) -> Option<Value> {
        let _ = name;
        None
    }

    /// The parameters of a method. Methods come before fields and keys of the same name.
    fn method(&self, name: &str) -> Option<Signature> {
        let _ = name;
        None
    }

    /// Calls a method with arguments that fit its signature.
    fn call(&self, name: &str, args: Args<'_>, meter: &mut dyn Meter) -> Result<Value, Failure> {
        let _ = (args, meter);
        Err(Failure::text(format!("{} has no method {name}", self.type_of())))
    }

    /// What `String()` gives, if the type has it: how the value is printed.
    fn text(&self) -> Option<String> {
        None
    }

    /// What an action prints: differs from [`Self::text`] where only a pointer to the type has
    /// `String()`, since an action prints through one if it can.
    fn shown(&self) -> Option<String> {
        self.text()
    }

    /// What `GoString()` gives, if the type has it: how `%#v` prints the value.
    fn go_syntax(&self) -> Option<String> {
        None
    }

    /// The fields as printing shows them: those that no template can reach too.
    fn printed(&self) -> Vec<(&str, Value)> {
        let field = |name: &&'_ str| self.field(name).unwrap_or(Value::Nil);
        self.fields().iter().map(|name| (*name, field(name))).collect()
    }

    /// What a verb of `Printf` writes, if the type formats itself; the width is added to it. A type
    /// that has something for `v` has no verbs but those it knows.
    fn format(&self, verb: char) -> Option<String> {
        let _ = verb;
        None
    }

    /// Whether both are equal (`==`), `None` if values of the type cannot be compared.
    fn equals(&self, other: &dyn Object) -> Option<bool> {
        let _ = other;
        None
    }
}
