//! The functions of templates with the types that they take and give.
//!
//! Functions whose result is random, and `now`, are absent.

use std::sync::LazyLock;

/// What an expression is grown for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// A parameter of Go's type int: only literals and results of `int` fit.
    Int,
    /// Any number.
    Number,
    Float,
    Bool,
    List,
    Map,
    Any,
    Pattern,
    Replacement,
    Version,
    Constraint,
    Layout,
    Date,
    Zone,
    Duration,
    /// An instant.
    Time,
    Url,
    Path,
    /// A text of YAML or JSON.
    Document,
    /// Go's layout for printf.
    Format,
}

/// A function: parameters, then the kind of all further arguments, then the result.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) fixed: Vec<Kind>,
    pub(crate) rest: Option<Kind>,
    pub(crate) result: Kind,
}

/// name:parameters:result, a letter a type; `*` behind a letter is any number of it.
const TABLE: &str = "
trim:s:s trimAll:ss:s trimall:ss:s trimSuffix:ss:s trimPrefix:ss:s upper:s:s lower:s:s title:s:s untitle:s:s swapcase:s:s repeat:is:s
substr:iis:s nospace:s:s initials:s:s trunc:is:s abbrev:is:s abbrevboth:iis:s wrap:is:s wrapWith:iss:s contains:ss:b hasPrefix:ss:b
hasSuffix:ss:b quote:a*:s squote:a*:s cat:a*:s indent:is:s nindent:is:s replace:sss:s plural:ssi:s snakecase:s:s camelcase:s:s
kebabcase:s:s sha1sum:s:s sha256sum:s:s sha512sum:s:s adler32sum:s:s b64enc:s:s b64dec:s:s b32enc:s:s b32dec:s:s toString:a:s
toStrings:a:l join:sa:s join:sl:s sortAlpha:l:l splitList:ss:l split:ss:m splitn:sis:m toDecimal:a:n atoi:s:n hello::s
int:n:i int64:n:n float64:n:f int:a:i int64:a:n float64:a:f add:n*:n add1:n:n sub:nn:n mul:nn*:n div:nn:n mod:nn:n max:nn*:n min:nn*:n biggest:nn*:n
addf:nn*:f add1f:n:f subf:nn*:f mulf:nn*:f divf:nn*:f maxf:nn*:f minf:nn*:f ceil:n:f floor:n:f round:ni:f round:nif:f until:i:l untilStep:iii:l seq:i*:s
list:a*:l tuple:a*:l first:l:a last:l:a rest:l:l initial:l:l append:la:l push:la:l prepend:la:l concat:l*:l reverse:l:l uniq:l:l without:la*:l
has:al:b compact:l:l slice:li:l slice:lii:l chunk:il:l mustFirst:l:a mustLast:l:a mustRest:l:l mustInitial:l:l mustAppend:la:l mustPush:la:l
mustPrepend:la:l mustReverse:l:l mustUniq:l:l mustWithout:la*:l mustHas:al:b mustCompact:l:l mustSlice:li:l mustChunk:il:l
dict:sasa:m dict:sa:m dict::m get:ms:a hasKey:ms:b set:msa:m unset:ms:m pluck:sm*:l pick:ms*:m omit:ms*:m dig:ssam:a dig:sam:a
merge:mm*:m mergeOverwrite:mm*:m mustMerge:mm*:m mustMergeOverwrite:mm*:m deepCopy:a:a mustDeepCopy:a:a deepCopy:m:m
default:aa:a empty:a:b coalesce:a*:a all:a*:b any:a*:b ternary:aab:a typeOf:a:s kindOf:a:s kindIs:sa:b typeIs:sa:b typeIsLike:sa:b deepEqual:aa:b
and:aa*:a or:aa*:a not:a:b eq:aa*:b ne:aa:b lt:nn:b le:nn:b gt:nn:b ge:nn:b lt:ss:b eq:ss:b eq:nn:b len:a:n index:as:a index:li:a index:lii:a
print:a*:s println:a*:s printf:Fa*:s html:a*:s js:a*:s urlquery:a*:s
date:yt:s date:yn:s dateInZone:ytz:s date_in_zone:ytz:s htmlDate:t:s htmlDateInZone:tz:s toDate:yd:t mustToDate:yd:t dateModify:ut:t mustDateModify:ut:t
must_date_modify:ut:t date_modify:ut:t unixEpoch:t:s duration:n:s durationRound:u:s durationRound:n:s durationRound:t:s
regexMatch:ps:b mustRegexMatch:ps:b regexFind:ps:s mustRegexFind:ps:s regexFindAll:psi:l mustRegexFindAll:psi:l regexReplaceAll:psr:s
mustRegexReplaceAll:psr:s regexReplaceAllLiteral:psr:s mustRegexReplaceAllLiteral:psr:s regexSplit:psi:l mustRegexSplit:psi:l regexQuoteMeta:s:s
semver:v:a semverCompare:cv:b urlParse:w:m urlJoin:m:s base:h:s dir:h:s clean:h:s ext:h:s isAbs:h:b osBase:h:s osDir:h:s osClean:h:s osExt:h:s osIsAbs:h:b
toYaml:a:s toYamlPretty:a:s toJson:a:s toPrettyJson:a:s toRawJson:a:s mustToJson:a:s mustToPrettyJson:a:s mustToRawJson:a:s toToml:a:s toToml:m:s
fromYaml:o:m fromYamlArray:o:l fromJson:o:m fromJsonArray:o:l mustFromJson:o:a fromToml:o:m required:sa:a fail:s:s
derivePassword:isxss:s buildCustomCert:ss:a decryptAES:ss:s getHostByName:s:s lookup:ssss:m tpl:sa:s
";

/// All functions.
pub(crate) static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| {
    let kind = |letter: char| match letter {
        's' | 'x' => Kind::Text,
        'i' => Kind::Int,
        'n' => Kind::Number,
        'f' => Kind::Float,
        'b' => Kind::Bool,
        'l' => Kind::List,
        'm' => Kind::Map,
        'p' => Kind::Pattern,
        'r' => Kind::Replacement,
        'v' => Kind::Version,
        'c' => Kind::Constraint,
        'y' => Kind::Layout,
        'd' => Kind::Date,
        'z' => Kind::Zone,
        'u' => Kind::Duration,
        't' => Kind::Time,
        'w' => Kind::Url,
        'h' => Kind::Path,
        'o' => Kind::Document,
        'F' => Kind::Format,
        _ => Kind::Any,
    };
    let entry = |line: &'static str| {
        let mut parts = line.split(':');
        let name = parts.next()?;
        let (params, result) = (parts.next()?, parts.next()?);
        let (fixed, rest) = match params.strip_suffix('*') {
            Some(params) => {
                let last = params.chars().last().map(kind);
                (params.chars().take(params.len().saturating_sub(1)).map(kind).collect(), last)
            }
            None => (params.chars().map(kind).collect(), None),
        };
        Some(Function { name, fixed, rest, result: kind(result.chars().next()?) })
    };
    // Expensive or hardly ever right: `derivePassword`, `buildCustomCert` are rare by their number.
    TABLE.split_whitespace().filter_map(entry).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        assert!(FUNCTIONS.len() > 220, "{}", FUNCTIONS.len());
        let mul = FUNCTIONS.iter().find(|function| function.name == "mul").unwrap();
        assert_eq!(
            (mul.fixed.as_slice(), mul.rest),
            ([Kind::Number].as_slice(), Some(Kind::Number))
        );
    }
}
