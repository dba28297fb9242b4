//! The files of the page, and under which rules a browser shows them.

use http::HeaderValue;

/// A file of the page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asset {
    pub(super) path: &'static str,
    pub(super) media: &'static str,
    pub(super) text: &'static str,
}

/// All files.
pub(super) const ASSETS: [Asset; 9] = [
    Asset { path: "/", media: "text/html; charset=utf-8", text: include_str!("assets/index.html") },
    Asset {
        path: "/style.css",
        media: "text/css; charset=utf-8",
        text: include_str!("assets/style.css"),
    },
    Asset { path: "/icon.svg", media: "image/svg+xml", text: include_str!("assets/icon.svg") },
    script("/app.js", include_str!("assets/app.js")),
    script("/api.js", include_str!("assets/api.js")),
    script("/application.js", include_str!("assets/application.js")),
    script("/applications.js", include_str!("assets/applications.js")),
    script("/dom.js", include_str!("assets/dom.js")),
    script("/graph.js", include_str!("assets/graph.js")),
];

const fn script(path: &'static str, text: &'static str) -> Asset {
    Asset { path, media: "text/javascript; charset=utf-8", text }
}

/// Headers of every answer: nothing but our own files runs, nobody frames the page, no text is parsed into markup, no address
/// is passed on, and nothing is kept.
pub(super) const HEADERS: [(&str, HeaderValue); 7] = [
    (
        "content-security-policy",
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        ),
    ),
    ("x-content-type-options", HeaderValue::from_static("nosniff")),
    ("x-frame-options", HeaderValue::from_static("DENY")),
    ("referrer-policy", HeaderValue::from_static("no-referrer")),
    ("cross-origin-opener-policy", HeaderValue::from_static("same-origin")),
    ("cross-origin-resource-policy", HeaderValue::from_static("same-origin")),
    ("cache-control", HeaderValue::from_static("no-store")),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the whole page.
    const MAX_BYTES: usize = 300 << 10;

    #[test]
    fn the_page_is_small_and_asks_nobody_else() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.text.len()).sum();
        assert!(bytes <= MAX_BYTES, "{bytes}");
        for asset in ASSETS {
            let text = asset.text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{}", asset.path);
        }
    }

    #[test]
    fn nothing_parses_markup_or_evaluates_text() {
        for asset in ASSETS {
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "DOMParser",
                "createContextualFragment",
                "eval(",
                "new Function",
                "setTimeout(\"",
                "srcdoc",
                "javascript:",
            ] {
                assert!(!asset.text.contains(word), "{}: {word}", asset.path);
            }
        }
    }
}
