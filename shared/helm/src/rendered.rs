//! The text of a rendered file. Long texts are those of the chart or of values, and not copied: charts of definitions are
//! megabytes that hardly change.

use std::borrow::Cow;
use std::fmt;

use gotemplate::SharedText;

/// What a value that is not there prints, and what is taken out of the output again.
const NO_VALUE: &str = "<no value>";

/// What a file was rendered to.
#[derive(Clone, Default)]
pub struct RenderedText {
    parts: Vec<Part>,
}

#[derive(Clone)]
enum Part {
    Own(String),
    Shared(SharedText),
}

impl Part {
    fn as_str(&self) -> &str {
        match self {
            Self::Own(text) => text,
            Self::Shared(text) => text.as_str(),
        }
    }
}

impl RenderedText {
    /// What a template made, without what stands for values that are not there. `plain`: the texts of the templates have
    /// nothing that looks like it.
    pub(crate) fn new(output: gotemplate::Output, plain: bool) -> Self {
        let (mut parts, mut found) = (Vec::new(), false);
        for part in output.into_parts() {
            parts.push(match part {
                gotemplate::Part::Own(mut bytes) => {
                    // All files of a render are in memory at once.
                    if bytes.capacity() - bytes.len() > bytes.len() / 8 {
                        bytes.shrink_to_fit();
                    }
                    Part::Own(text_of(bytes))
                }
                gotemplate::Part::Literal(text) => {
                    found |= !plain && has_no_value(text.as_str());
                    Part::Shared(text)
                }
                gotemplate::Part::Value(text) => {
                    found |= has_no_value(text.as_str());
                    Part::Shared(text)
                }
            });
        }
        let text = Self { parts };
        if found || text.has_no_value_between() {
            return Self { parts: vec![Part::Own(without_no_value(text.into_string()))] };
        }
        let without = |part| match part {
            Part::Own(text) => Part::Own(without_no_value(text)),
            shared => shared,
        };
        Self { parts: text.parts.into_iter().map(without).collect() }
    }

    /// Whether what is taken out lies in several parts.
    fn has_no_value_between(&self) -> bool {
        let most = NO_VALUE.len() - 1;
        // The end of what came so far, and the beginning of what follows.
        let mut around: Vec<u8> = Vec::new();
        self.parts.iter().any(|part| {
            let text = part.as_str().as_bytes();
            let from = around.len().saturating_sub(most);
            around.drain(..from);
            around.extend_from_slice(text.get(..most).unwrap_or(text));
            let found = memchr::memmem::find(&around, NO_VALUE.as_bytes()).is_some();
            if text.len() > most {
                around.clear();
                around.extend_from_slice(text.get(text.len() - most..).unwrap_or_default());
            }
            found
        })
    }

    /// How many bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.as_str().len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.as_str().is_empty())
    }

    /// In one piece, copied only if it is made of several.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self.parts.as_slice() {
            [] => Cow::Borrowed(""),
            [part] => Cow::Borrowed(part.as_str()),
            _ => Cow::Owned(self.joined()),
        }
    }

    /// In one piece.
    #[must_use]
    pub fn into_string(mut self) -> String {
        match self.parts.pop() {
            Some(Part::Own(text)) if self.parts.is_empty() => text,
            last => {
                self.parts.extend(last);
                self.joined()
            }
        }
    }

    fn joined(&self) -> String {
        let mut text = String::with_capacity(self.len());
        text.extend(self.parts.iter().map(Part::as_str));
        text
    }
}

impl<'t> From<&'t RenderedText> for Cow<'t, str> {
    fn from(text: &'t RenderedText) -> Self {
        text.text()
    }
}

impl fmt::Debug for RenderedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

/// Bytes as text.
pub(crate) fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Whether a text has what is taken out.
pub(crate) fn has_no_value(text: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), NO_VALUE.as_bytes()).is_some()
}

/// A text without what is taken out.
pub(crate) fn without_no_value(text: String) -> String {
    if has_no_value(&text) { text.replace(NO_VALUE, "") } else { text }
}

#[cfg(test)]
mod tests {
    use crate::chart::Chart;
    use crate::limits::{Budget, Limits};

    /// The text that a template makes, and in how many parts.
    fn rendered(template: &str) -> (String, usize) {
        struct Still;
        impl crate::host::Host for Still {
            fn now(&mut self) -> jiff::Timestamp {
                jiff::Timestamp::UNIX_EPOCH
            }
            fn random(&mut self, bytes: &mut [u8]) {
                bytes.fill(0);
            }
        }
        let file = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
        let files = [
            file("Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n"),
            file("long", &long("f")),
            file("templates/t", template),
        ];
        let chart = Chart::from_directory(files, &Limits::default()).unwrap();
        let budget = Budget { stack: 1 << 20, ..Budget::default() };
        let values = crate::values::Table::new();
        let options = crate::render::Options::default();
        let prepared = crate::render::prepare(&chart, &values, options, &budget).unwrap();
        let release = crate::release::Release {
            name: "r".into(),
            namespace: "n".into(),
            is_upgrade: false,
            revision: 1,
        };
        let version = crate::objects::KubeVersion::parse("v1.34.0").unwrap();
        let capabilities = crate::objects::Capabilities::without_cluster(version);
        let texts = prepared.texts(&release, &capabilities, Box::new(Still), &budget).unwrap();
        let text = texts.get("c/templates/t").unwrap().clone();
        let parts = text.parts.len();
        assert_eq!((text.len(), text.is_empty()), (text.text().len(), text.text().is_empty()));
        (text.into_string(), parts)
    }

    fn long(char: &str) -> String {
        char.repeat(5000)
    }

    #[test]
    fn long_texts_are_shared() {
        let (a, b, f) = (long("a"), long("b"), long("f"));
        let template = format!("x{{{{ 1 }}}}{a}{{{{ 2 }}}}{b}{{{{ .Files.Get \"long\" }}}}");
        assert_eq!(rendered(&template), (format!("x1{a}2{b}{f}"), 5));
        assert_eq!(rendered("short"), ("short".to_owned(), 1));
        assert_eq!(rendered(""), (String::new(), 0));
        // What is executed within another template is a value like any other.
        let template = format!("{{{{ define \"d\" }}}}{a}{{{{ end }}}}{{{{ include \"d\" . }}}}!");
        assert_eq!(rendered(&template), (format!("{a}!"), 2));
    }

    #[test]
    fn what_stands_for_no_value_is_found_wherever_it_lies() {
        let (a, b) = (long("a"), long("b"));
        for (template, want) in [
            (format!("{a}<no value>{b}"), format!("{a}{b}")),
            (format!("{a}{{{{ .nope }}}}{b}"), format!("{a}{b}")),
            (format!("{a}<no {{{{ \"value>\" }}}}{b}"), format!("{a}{b}")),
            (format!("{a}<{{{{ \"no\" }}}} value>{b}"), format!("{a}{b}")),
            (format!("{a}{{{{ \"<\" }}}}no{{{{ \" \" }}}}value>{b}"), format!("{a}{b}")),
            (format!("<no{{{{ \" \" }}}}value>{b}"), b.clone()),
            (
                format!("<no val{{{{ \"\" }}}}ue>{b}{{{{ 1 }}}}<no valu{{{{ 2 }}}}"),
                format!("{b}1<no valu2"),
            ),
            (r#"{{ printf "<no value>%s" (.Files.Get "long") }}"#.to_owned(), long("f")),
        ] {
            assert_eq!(
                rendered(&template).0,
                want,
                "{}",
                template.replace(&a, "A").replace(&b, "B")
            );
        }
    }
}
