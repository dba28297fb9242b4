//! Which productions make up a family of programs.

use clap::ValueEnum;

/// A part of the language that programs are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub(crate) enum Family {
    /// A little of everything.
    Mixed,
    /// Comprehensions, also those that insert into the structs they read.
    Comprehensions,
    /// References in circles, of values and of structures.
    Cycles,
    /// Definitions, `close`, embeddings, optional and required fields.
    Closedness,
    /// Alternatives, defaults, checks that depend on what is chosen.
    Disjunctions,
    /// Structs used as functions: `(#f & {in: x}).out`.
    Functions,
    /// Embedded scalars, lists and references.
    Embedding,
    /// Patterns, dynamic fields, interpolated labels, aliases, `let`.
    Labels,
    /// `matchN`, `matchIf`, `list.MatchN` and other validators.
    Validators,
    /// Functions of the standard packages.
    Standard,
    /// The order of fields, made visible by `json.Marshal`.
    Order,
    /// Several files and packages of a module.
    Packages,
    /// Definitions of KubeVela with parameters and a context.
    Rendering,
    /// Mutations of the programs of the conformance corpus.
    Corpus,
}

impl Family {
    pub(crate) fn weights(self) -> Weights {
        let base = Weights::BASE;
        match self {
            Self::Mixed | Self::Packages | Self::Rendering | Self::Corpus => base,
            Self::Comprehensions => Weights {
                circle: 30,
                comprehension: 40,
                presence: 25,
                list_comprehension: 25,
                ..base
            },
            Self::Cycles => {
                Weights { circle: 80, reference: 60, literal: 8, arithmetic: 20, embed: 10, ..base }
            }
            Self::Closedness => Weights {
                definition: 35,
                embed: 25,
                close: 20,
                optional: 20,
                required: 10,
                ellipsis: 15,
                pattern: 10,
                unify: 25,
                ..base
            },
            Self::Disjunctions => {
                Weights { disjunction: 45, default: 60, unify: 25, presence: 10, bound: 15, ..base }
            }
            Self::Functions => Weights { function: 50, definition: 30, hidden: 10, ..base },
            Self::Embedding => Weights { embed: 40, embed_scalar: 40, unify: 15, ..base },
            Self::Labels => Weights {
                pattern: 25,
                dynamic: 25,
                let_clause: 25,
                alias: 25,
                ellipsis: 8,
                comprehension: 15,
                ..base
            },
            Self::Validators => Weights { validator: 45, unify: 30, bound: 20, ..base },
            Self::Standard => Weights { standard: 60, list_comprehension: 12, ..base },
            Self::Order => Weights { marshal: 30, embed: 25, unify: 25, comprehension: 15, ..base },
        }
    }
}

/// How often a production is chosen, relative to the others that fit a position; the first four
/// are percentages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub(super) definition: u32,
    pub(super) hidden: u32,
    pub(super) default: u32,
    /// References that may close a circle, of a hundred.
    pub(super) circle: u32,
    pub(super) literal: u32,
    pub(super) reference: u32,
    pub(super) arithmetic: u32,
    pub(super) unify: u32,
    pub(super) disjunction: u32,
    pub(super) bound: u32,
    pub(super) close: u32,
    pub(super) function: u32,
    pub(super) standard: u32,
    pub(super) validator: u32,
    pub(super) presence: u32,
    pub(super) list_comprehension: u32,
    pub(super) marshal: u32,
    pub(super) comprehension: u32,
    pub(super) embed: u32,
    pub(super) embed_scalar: u32,
    pub(super) optional: u32,
    pub(super) required: u32,
    pub(super) pattern: u32,
    pub(super) dynamic: u32,
    pub(super) let_clause: u32,
    pub(super) alias: u32,
    pub(super) ellipsis: u32,
}

impl Weights {
    const BASE: Self = Self {
        definition: 15,
        hidden: 8,
        default: 35,
        circle: 12,
        literal: 25,
        reference: 25,
        arithmetic: 8,
        unify: 10,
        disjunction: 10,
        bound: 6,
        close: 4,
        function: 4,
        standard: 3,
        validator: 3,
        presence: 4,
        list_comprehension: 6,
        marshal: 0,
        comprehension: 10,
        embed: 8,
        embed_scalar: 3,
        optional: 6,
        required: 3,
        pattern: 4,
        dynamic: 4,
        let_clause: 4,
        alias: 3,
        ellipsis: 3,
    };
}
