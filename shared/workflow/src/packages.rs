//! The packages a step template may import besides CUE's own: declarations of provider calls.
//!
//! The texts are ours; names, calls and parameters are those of the reference. `vela/ql` is the
//! older name of `vela/query`.

use cue::Packages;

/// Import paths and their texts.
const TEXTS: [(&str, &str); 13] = [
    ("vela/builtin", include_str!("../packages/builtin.cue")),
    ("vela/config", include_str!("../packages/config.cue")),
    ("vela/email", include_str!("../packages/email.cue")),
    ("vela/http", include_str!("../packages/http.cue")),
    ("vela/kube", include_str!("../packages/kube.cue")),
    ("vela/metrics", include_str!("../packages/metrics.cue")),
    ("vela/multicluster", include_str!("../packages/multicluster.cue")),
    ("vela/oam", include_str!("../packages/oam.cue")),
    ("vela/op", include_str!("../packages/op.cue")),
    ("vela/query", include_str!("../packages/query.cue")),
    ("vela/terraform", include_str!("../packages/terraform.cue")),
    ("vela/time", include_str!("../packages/time.cue")),
    ("vela/util", include_str!("../packages/util.cue")),
];

/// The template of the step type `suspend`: it counts whatever definition of that name a cluster has.
pub const SUSPEND: &str = "import \"vela/builtin\"\n\nsuspend: builtin.#Suspend & {\n\t$params: parameter\n}\nparameter: {\n\tduration?: string\n\tmessage?:  string\n}\n";

/// The packages of step templates.
#[must_use]
pub fn packages() -> Packages {
    let mut packages = Packages::std();
    for (path, text) in TEXTS {
        packages.register(path, text);
    }
    packages.register("vela/ql", include_str!("../packages/query.cue"));
    packages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_of_suspend_compiles() {
        assert!(crate::compile(SUSPEND).is_ok());
    }

    #[test]
    fn every_package_is_cue() {
        for (path, text) in TEXTS {
            let result = cue::Program::compile(path, text, &Packages::std());
            assert!(
                result.is_ok(),
                "{path}: {}",
                result.err().map(|e| e.to_string()).unwrap_or_default()
            );
        }
    }
}
