//! A struct as it is declared: names in Rust, JSON and Go, documentation, and what its attributes say.

use syn::meta::ParseNestedMeta;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, Fields, Ident, Lit, LitStr, Meta, Token, Type,
};

/// A struct.
pub(crate) struct Declared {
    pub(crate) name: Ident,
    /// The name of the Go type.
    pub(crate) go: String,
    pub(crate) doc: String,
    pub(crate) is_atomic: bool,
    pub(crate) fields: Vec<Field>,
}

/// A field.
pub(crate) struct Field {
    pub(crate) name: Ident,
    pub(crate) of: Type,
    /// Its name in JSON, unless serde passes it over.
    pub(crate) json: Option<String>,
    pub(crate) go: String,
    pub(crate) doc: String,
    pub(crate) is_required: bool,
    pub(crate) is_hidden: bool,
    pub(crate) schema: Option<Expr>,
    pub(crate) hash: Option<Expr>,
}

impl Declared {
    pub(crate) fn read(input: &DeriveInput) -> Result<Self, Error> {
        let Data::Struct(data) = &input.data else {
            return Err(Error::new_spanned(input, "API types are structs"));
        };
        let Fields::Named(fields) = &data.fields else {
            return Err(Error::new_spanned(input, "the fields of API types have names"));
        };
        let (mut go, mut is_atomic) = (input.ident.to_string(), false);
        each(&input.attrs, "api", |meta| {
            if meta.path.is_ident("go") {
                go = text(meta)?;
            } else if meta.path.is_ident("atomic") {
                is_atomic = true;
            } else {
                return Err(meta.error("of a struct: `go` or `atomic`"));
            }
            Ok(())
        })?;
        let fields = fields.named.iter().map(Field::read).collect::<Result<_, _>>()?;
        Ok(Self { name: input.ident.clone(), go, doc: doc(&input.attrs), is_atomic, fields })
    }
}

impl Field {
    fn read(field: &syn::Field) -> Result<Self, Error> {
        let Some(name) = field.ident.clone() else {
            return Err(Error::new_spanned(field, "the fields of API types have names"));
        };
        // A trailing underscore keeps a name from being a keyword.
        let plain = name.to_string().trim_end_matches('_').to_owned();
        let pascal = pascal(&plain);
        let mut read = Self {
            json: Some(camel(&pascal)),
            go: pascal,
            doc: doc(&field.attrs),
            of: field.ty.clone(),
            is_required: false,
            is_hidden: false,
            schema: None,
            hash: None,
            name,
        };
        each(&field.attrs, "serde", |meta| {
            if meta.path.is_ident("skip") {
                read.json = None;
            } else if meta.path.is_ident("rename") {
                read.json = Some(text(meta)?);
            } else if meta.input.peek(Token![=]) {
                let _: Lit = meta.value()?.parse()?;
            }
            Ok(())
        })?;
        each(&field.attrs, "api", |meta| {
            if meta.path.is_ident("required") {
                read.is_required = true;
            } else if meta.path.is_ident("hidden") {
                read.is_hidden = true;
            } else if meta.path.is_ident("go") {
                read.go = text(meta)?;
            } else if meta.path.is_ident("schema") {
                read.schema = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("hash") {
                read.hash = Some(meta.value()?.parse()?);
            } else {
                return Err(
                    meta.error("of a field: `required`, `hidden`, `go`, `schema` or `hash`")
                );
            }
            Ok(())
        })?;
        Ok(read)
    }
}

/// Every item of the attributes with a name.
fn each(
    attributes: &[Attribute],
    name: &str,
    mut read: impl FnMut(&ParseNestedMeta<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident(name))
        .try_for_each(|attribute| attribute.parse_nested_meta(|meta| read(&meta)))
}

fn text(meta: &ParseNestedMeta<'_>) -> Result<String, Error> {
    Ok(meta.value()?.parse::<LitStr>()?.value())
}

/// The first paragraph of the documentation, in one line and without links.
fn doc(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    let paragraph: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    paragraph.join(" ").replace("[`", "`").replace("`]", "`")
}

/// `depends_on` to `DependsOn`.
fn pascal(name: &str) -> String {
    name.split('_')
        .flat_map(|word| {
            let mut letters = word.chars();
            letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters)
        })
        .collect()
}

/// `DependsOn` to `dependsOn`.
fn camel(pascal: &str) -> String {
    let mut letters = pascal.chars();
    letters.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn names_and_documentation_follow_the_declaration() {
        let declared = Declared::read(&parse_quote! {
            /// A thing of
            /// [`Other`].
            ///
            /// More.
            #[api(go = "Base", atomic)]
            struct Thing {
                /// What.
                #[serde(skip_serializing_if = "zero", default)]
                #[api(required)]
                depends_on: Vec<String>,
                #[serde(rename = "ref")]
                #[api(go = "Ref", schema = string().nullable())]
                reference_: String,
                #[serde(skip)]
                key: String,
            }
        })
        .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((&*declared.go, &*declared.doc), ("Base", "A thing of `Other`."));
        assert!(declared.is_atomic);
        let fields: Vec<_> = declared
            .fields
            .iter()
            .map(|field| (field.json.as_deref(), &*field.go, &*field.doc, field.is_required))
            .collect();
        assert_eq!(
            fields,
            [
                (Some("dependsOn"), "DependsOn", "What.", true),
                (Some("ref"), "Ref", "", false),
                (None, "Key", "", false),
            ]
        );
        assert!(declared.fields.iter().filter(|field| field.schema.is_some()).count() == 1);
    }

    #[test]
    fn an_unknown_attribute_is_an_error() {
        let input = parse_quote! { struct Thing { #[api(requried)] name: String } };
        assert!(Declared::read(&input).is_err());
        assert!(Declared::read(&parse_quote! { enum Thing {} }).is_err());
    }
}
