//! What follows from the declaration of an API type: the schema of its CustomResourceDefinition and its Go hash.
//!
//! For `vela-api` alone: the derived code names modules of that crate. The README has the attributes.

#![warn(missing_docs)]

mod declared;

use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, parse_macro_input};

use declared::Declared;

/// Implements `crate::crd::Described`: the schema, field by field.
#[proc_macro_derive(Crd, attributes(api))]
pub fn derive_crd(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    match Declared::read(&input) {
        Ok(declared) => schema(&declared).into(),
        Err(error) => error.into_compile_error().into(),
    }
}

/// Implements `crate::hash::GoHash`: the hash of the Go struct with these fields in this order.
#[proc_macro_derive(GoHash, attributes(api))]
pub fn derive_go_hash(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    match Declared::read(&input) {
        Ok(declared) => hash(&declared).into(),
        Err(error) => error.into_compile_error().into(),
    }
}

fn schema(declared: &Declared) -> proc_macro2::TokenStream {
    let Declared { name, doc, is_atomic, .. } = declared;
    let fields = declared.fields.iter().filter(|field| !field.is_hidden).filter_map(|field| {
        let json = field.json.as_ref()?;
        let (doc, is_required, of) = (&field.doc, field.is_required, &field.of);
        let schema = match &field.schema {
            Some(given) => quote!(#given),
            None => quote!(<#of as crate::crd::Described>::schema()),
        };
        Some(quote! {
            if !left_out.contains(&#json) {
                schema = schema.field(#json, #doc, #is_required, #schema);
            }
        })
    });
    let atomic = is_atomic.then(|| quote!(.atomic()));
    quote! {
        impl #name {
            /// The schema without some of the fields.
            pub(crate) fn schema_without(left_out: &[&str]) -> crate::crd::Schema {
                let mut schema = crate::crd::Schema::object();
                #(#fields)*
                schema #atomic
            }
        }

        impl crate::crd::Described for #name {
            const DOC: &'static str = #doc;

            fn schema() -> crate::crd::Schema {
                Self::schema_without(&[])
            }
        }
    }
}

fn hash(declared: &Declared) -> proc_macro2::TokenStream {
    let Declared { name, go, .. } = declared;
    let fields = declared.fields.iter().filter(|field| !field.is_hidden).map(|field| {
        let (go, ident) = (&field.go, &field.name);
        let hash = match &field.hash {
            Some(given) => quote!(#given),
            None => quote!(crate::hash::GoHash::go_hash(&self.#ident)),
        };
        quote!(.field(#go, #hash))
    });
    quote! {
        impl crate::hash::GoHash for #name {
            fn go_hash(&self) -> u64 {
                vela_gocompat::hashstructure::Struct::new(#go) #(#fields)* .finish()
            }
        }
    }
}
