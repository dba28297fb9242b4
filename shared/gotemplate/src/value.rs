//! What templates compute with.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::entries::Entries;
use crate::object::{Object, Underlying};
use crate::text::Str;
use crate::types::{Int, Kind, Type, Uint};

/// A value of a template. Cheap to clone; maps are shared and can change, as in Go.
///
/// Go has two kinds of nothing, and templates can tell one from the other: a field of [`Self::Nil`]
/// is an error, a field of [`Self::NoValue`] is `NoValue` again.
#[derive(Debug, Clone, Default)]
pub enum Value {
    /// No value at all: what a missing key or nil is once it went through a pipeline.
    #[default]
    NoValue,
    /// A nil interface: null in a map or list, and a key that is missing there.
    Nil,
    /// `bool`
    Bool(bool),
    /// A signed integer with its type; the number is in the range of the type.
    Int(Int, i64),
    /// An unsigned integer with its type; the number is in the range of the type.
    Uint(Uint, u64),
    /// `float64`
    Float(f64),
    /// `string`: any bytes, as in Go.
    String(Str),
    /// `[]uint8`
    Bytes(Str),
    /// A slice; its elements cannot be changed.
    List(List),
    /// A map from texts, shared by all clones of the value.
    Map(Map),
    /// A value whose fields and methods the caller of the template defines.
    Object(Rc<dyn Object>),
}

impl Value {
    /// An `int`.
    #[must_use]
    pub fn int(value: i64) -> Self {
        Self::Int(Int::Int, value)
    }

    /// An `int64`.
    #[must_use]
    pub fn int64(value: i64) -> Self {
        Self::Int(Int::Int64, value)
    }

    /// A value with fields and methods.
    #[must_use]
    pub fn object(object: impl Object) -> Self {
        Self::Object(Rc::new(object))
    }

    /// Whether this is one of the two kinds of nothing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::NoValue | Self::Nil)
    }

    /// The type, `None` of the two kinds of nothing: Go's `%T`.
    #[must_use]
    pub fn type_of(&self) -> Option<Type> {
        Some(match self {
            Self::NoValue | Self::Nil => return None,
            Self::Bool(_) => Type::Bool,
            Self::Int(int, _) => Type::Int(*int),
            Self::Uint(uint, _) => Type::Uint(*uint),
            Self::Float(_) => Type::Float64,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::BYTES,
            Self::List(list) => list.type_of(),
            Self::Map(map) => map.type_of(),
            Self::Object(object) => object.type_of(),
        })
    }

    /// Go's `reflect.Kind`.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoValue | Self::Nil => Kind::Invalid,
            Self::Bool(_) => Kind::Bool,
            Self::Int(int, _) => Kind::Int(*int),
            Self::Uint(uint, _) => Kind::Uint(*uint),
            Self::Float(_) => Kind::Float64,
            Self::String(_) => Kind::String,
            Self::Bytes(_) | Self::List(_) => Kind::Slice,
            Self::Map(_) => Kind::Map,
            Self::Object(object) => match object.underlying() {
                Underlying::Value(value) => value.kind(),
                Underlying::Struct => Kind::Struct,
                Underlying::Pointer => Kind::Pointer,
                Underlying::Func => Kind::Func,
            },
        }
    }

    /// Go's truth: false, zero, what is empty and what is nil are not true; structs always are.
    #[must_use]
    pub fn is_true(&self) -> bool {
        match self {
            Self::NoValue | Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Int(_, value) => *value != 0,
            Self::Uint(_, value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::String(text) | Self::Bytes(text) => !text.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Object(object) => match object.underlying() {
                Underlying::Value(value) => value.is_true(),
                Underlying::Struct | Underlying::Pointer | Underlying::Func => true,
            },
        }
    }

    /// What a type with a name stands for: `chartutil.Values` is a map. Others are themselves.
    #[must_use]
    pub fn underlying(&self) -> Self {
        match self {
            Self::Object(object) => match object.underlying() {
                Underlying::Value(value) => value,
                _ => self.clone(),
            },
            value => value.clone(),
        }
    }

    /// The object of type `T` that this is.
    #[must_use]
    pub fn downcast_ref<T: Object>(&self) -> Option<&T> {
        match self {
            Self::Object(object) => {
                let object: &dyn Any = &**object;
                object.downcast_ref()
            }
            _ => None,
        }
    }

    /// The zero value of a type: of an interface, a pointer, a list or a map that is nil.
    #[must_use]
    pub fn zero(of: Type) -> Self {
        match of {
            Type::Any | Type::Named(_) => Self::Nil,
            Type::Bool => Self::Bool(false),
            Type::Int(int) => Self::Int(int, 0),
            Type::Uint(uint) => Self::Uint(uint, 0),
            Type::Float64 => Self::Float(0.0),
            Type::String => Self::String(Str::new()),
            Type::List(element) => Self::List(List::nil(element)),
            Type::Map(element) => Self::Map(Map::nil(element)),
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<Str> for Value {
    fn from(text: Str) -> Self {
        Self::String(text)
    }
}

impl From<List> for Value {
    fn from(list: List) -> Self {
        Self::List(list)
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

/// A slice of Go. It does not change; functions make new ones.
#[derive(Debug, Clone)]
pub struct List(Rc<Items>);

#[derive(Debug)]
struct Items {
    element: &'static Type,
    /// None: a nil slice, which JSON and `%#v` tell from an empty one.
    items: Option<Vec<Value>>,
}

impl List {
    /// `[]interface {}` of these elements.
    #[must_use]
    pub fn new(items: Vec<Value>) -> Self {
        Self::of(&Type::Any, items)
    }

    /// A list of elements of one type, which the caller has seen to.
    #[must_use]
    pub fn of(element: &'static Type, items: Vec<Value>) -> Self {
        Self(Rc::new(Items { element, items: Some(items) }))
    }

    /// `[]string`
    pub fn strings<T: Into<Str>>(items: impl IntoIterator<Item = T>) -> Self {
        let items = items.into_iter().map(|text| Value::String(text.into())).collect();
        Self::of(&Type::String, items)
    }

    /// Other elements of the same type.
    #[must_use]
    pub fn like(&self, items: Vec<Value>) -> Self {
        Self::of(self.0.element, items)
    }

    /// The nil slice of a type.
    #[must_use]
    pub fn nil(element: &'static Type) -> Self {
        Self(Rc::new(Items { element, items: None }))
    }

    /// Whether this is the nil slice, which is also empty.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        self.0.items.is_none()
    }

    /// The type of the elements.
    #[must_use]
    pub fn element(&self) -> Type {
        *self.0.element
    }

    /// The type of the list.
    #[must_use]
    pub fn type_of(&self) -> Type {
        Type::List(self.0.element)
    }

    /// The elements.
    #[must_use]
    pub fn as_slice(&self) -> &[Value] {
        self.0.items.as_deref().unwrap_or_default()
    }

    /// How many elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// Whether both are one list, not only equal ones.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Drop for Items {
    fn drop(&mut self) {
        if let Some(items) = self.items.take() {
            free(items);
        }
    }
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        Self::new(items.into_iter().collect())
    }
}

/// A map of Go with strings for keys, in their order. Clones are the same map.
///
/// A map changes through [`Call::insert`](crate::Call::insert) and
/// [`Call::remove`](crate::Call::remove) only: a map that comes to hold itself has to be freed by
/// somebody.
#[derive(Debug, Clone)]
pub struct Map(Rc<Held>);

#[derive(Debug)]
struct Held {
    element: &'static Type,
    /// None: a nil map, which reads like an empty one and cannot be written.
    entries: Option<RefCell<Entries<Value>>>,
    /// Whether a heap has noted that the map changed.
    noted: Cell<bool>,
}

impl Map {
    /// `map[string]interface {}` of these entries.
    #[must_use]
    pub fn new(entries: Entries<Value>) -> Self {
        Self::of(&Type::Any, entries)
    }

    /// A map of values of one type, which the caller has seen to.
    #[must_use]
    pub fn of(element: &'static Type, entries: Entries<Value>) -> Self {
        let entries = Some(RefCell::new(entries));
        Self(Rc::new(Held { element, entries, noted: Cell::new(false) }))
    }

    /// The nil map of a type.
    #[must_use]
    pub fn nil(element: &'static Type) -> Self {
        Self(Rc::new(Held { element, entries: None, noted: Cell::new(false) }))
    }

    /// Whether this is the nil map, which is also empty.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        self.0.entries.is_none()
    }

    /// The type of the values.
    #[must_use]
    pub fn element(&self) -> Type {
        *self.0.element
    }

    /// The type of the map.
    #[must_use]
    pub fn type_of(&self) -> Type {
        Type::Map(self.0.element)
    }

    /// What `read` makes of the entries, without a copy of them; a nil map has none. No borrow outlives a method of this
    /// type, so none can be in the way of another; `read` itself must not change the map.
    pub fn read<T>(&self, read: impl FnOnce(&Entries<Value>) -> T) -> T {
        match &self.0.entries {
            Some(entries) => read(&entries.borrow()),
            None => read(&Entries::new()),
        }
    }

    /// The value of a key: `&str` or bytes.
    #[must_use]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        self.read(|entries| entries.get(key.as_ref()).cloned())
    }

    /// Whether there is such a key.
    #[must_use]
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> bool {
        self.read(|entries| entries.get(key.as_ref()).is_some())
    }

    /// How many entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(Entries::len)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys in order.
    #[must_use]
    pub fn keys(&self) -> Vec<Str> {
        self.read(|entries| entries.keys().cloned().collect())
    }

    /// The entries in order of the keys, as they are now.
    #[must_use]
    pub fn entries(&self) -> Vec<(Str, Value)> {
        self.read(|entries| entries.iter().map(|(k, v)| (k.clone(), v.clone())).collect())
    }

    /// Whether both are one map, not only equal ones.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Changes the map; `None` if it is nil. `change` must not reach the map in another way.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Entries<Value>) -> T) -> Option<T> {
        self.0.entries.as_ref().map(|entries| change(&mut entries.borrow_mut()))
    }

    /// What the map held; it is empty then.
    pub(crate) fn take(&self) -> Entries<Value> {
        self.0.noted.set(false);
        self.write(std::mem::take).unwrap_or_default()
    }

    /// Notes that the map changed; false if that was noted before.
    pub(crate) fn note(&self) -> bool {
        !self.0.noted.replace(true)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(entries) = self.entries.take() {
            free(entries.into_inner().into_values());
        }
    }
}

/// Drops values without recursion: a template can nest a hundred thousand lists.
fn free(mut values: Vec<Value>) {
    while let Some(value) = values.pop() {
        match value {
            Value::List(list) => {
                if let Some(items) = Rc::into_inner(list.0).and_then(|mut list| list.items.take()) {
                    values.extend(items);
                }
            }
            Value::Map(map) => {
                let entries = Rc::into_inner(map.0).and_then(|mut map| map.entries.take());
                if let Some(entries) = entries {
                    values.extend(entries.into_inner().into_values());
                }
            }
            _ => {}
        }
    }
}

impl FromIterator<(Str, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (Str, Value)>>(entries: I) -> Self {
        Self::new(entries.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_values_are_dropped_without_recursion() {
        let mut deep = Value::Nil;
        for i in 0..300_000 {
            deep = if i % 2 == 0 {
                List::new(vec![deep]).into()
            } else {
                Map::from_iter([("k".into(), deep)]).into()
            };
        }
        drop(deep);
    }

    #[test]
    fn what_is_empty_or_zero_is_not_true() {
        let zero = [Type::Any, Type::Bool, Type::INT, Type::Float64, Type::String, Type::LIST];
        for of in zero.into_iter().chain([Type::MAP, Type::INT64]) {
            assert!(!Value::zero(of).is_true(), "{of}");
        }
        assert!(Value::from(List::new(vec![Value::Nil])).is_true());
        assert!(Value::from(f64::NAN).is_true());
    }

    #[test]
    fn clones_of_a_map_are_the_same_map() {
        let map = Map::new(Entries::new());
        let other = map.clone();
        other.write(|entries| entries.insert("a".into(), Value::int(1)));
        assert!(map.contains_key("a") && map.same(&other));
        assert!(Map::nil(&Type::Any).write(|_| ()).is_none(), "a nil map cannot change");
    }
}
