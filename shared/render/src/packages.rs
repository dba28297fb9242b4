//! The packages a template may import besides CUE's own: declarations of provider functions.

use cue::Packages;

/// The packages of component, trait and policy templates.
pub(crate) fn templates() -> Packages {
    let mut packages = Packages::std();
    for (path, text) in [
        ("vela/base64", BASE64),
        ("vela/helm", HELM),
        ("vela/http", HTTP),
        ("vela/kube", KUBE),
        ("vela/config", CONFIG),
        ("vela/cue", CUE),
    ] {
        packages.register(path, text);
    }
    packages
}

/// The packages plus an empty stand-in for every other `vela/...` package that a text imports.
pub(crate) fn stand_ins(text: &str, mut packages: Packages) -> Packages {
    let (file, _) = cue_syntax::parse("-", text, &cue_syntax::ParseLimits::default());
    for import in &file.imports {
        let path = file.ast.str(import.path);
        if path.starts_with("vela/") && !OURS.contains(&path) {
            packages.register(path, "_nothing: _\n");
        }
    }
    packages
}

/// Whether a text imports a package of provider functions.
pub(crate) fn asks_host(text: &str) -> bool {
    text.contains("import") && {
        let (file, _) = cue_syntax::parse("-", text, &cue_syntax::ParseLimits::default());
        file.imports.iter().any(|import| file.ast.str(import.path).starts_with("vela/"))
    }
}

const OURS: [&str; 6] =
    ["vela/base64", "vela/helm", "vela/http", "vela/kube", "vela/config", "vela/cue"];

const BASE64: &str = r#"
#Encode: {
	#do:       "encode"
	#provider: "base64"
	$params:   string
	$returns?: string
	...
}
#Decode: {
	#do:       "decode"
	#provider: "base64"
	$params:   string
	$returns?: string
	...
}
"#;

const HELM: &str = r#"
#Render: {
	#do:       "render"
	#provider: "helm"
	$params: {
		chart: {
			source:   string
			repoURL?: string
			version?: string
			auth?: {...}
		}
		release?: {
			name?:      string
			namespace?: string
			...
		}
		values?: _
		valuesFrom?: [...{...}]
		options?: {
			includeCRDs?:     bool
			skipTests?:       bool
			skipHooks?:       bool
			createNamespace?: bool
			timeout?:         string
			maxHistory?:      int
			atomic?:          bool
			wait?:            bool
			force?:           bool
			recreatePods?:    bool
			cleanupOnFail?:   bool
			cache?: {
				key?:          string
				ttl?:          string
				immutableTTL?: string
				mutableTTL?:   string
			}
		}
		context?: {...}
		...
	}
	$returns?: {
		resources?: [...{...}]
		notes?: string
		...
	}
	...
}
"#;

const HTTP: &str = r#"
#Do: {
	#do:       "do"
	#provider: "http"
	$params: {
		method: *"GET" | "POST" | "PUT" | "DELETE"
		url:    string
		request?: {
			body?:     string
			timeout?:  string
			header?: [string]:  string
			trailer?: [string]: string
			ratelimiter?: {
				limit:  int
				period: string
			}
			...
		}
		tls_config?: {
			secret:     string
			namespace?: string
			...
		}
		...
	}
	$returns?: {
		body: string
		header?: [string]:  [...string]
		trailer?: [string]: [...string]
		statusCode?: int
		...
	}
	...
}
#Get: #Do & {$params: method: "GET", ...}
#Post: #Do & {$params: method: "POST", ...}
#Put: #Do & {$params: method: "PUT", ...}
#Delete: #Do & {$params: method: "DELETE", ...}
"#;

const KUBE: &str = r#"
#Get: {
	#do:       "get"
	#provider: "kube"
	$params: {
		cluster: *"" | string
		resource: {...}
		options?: {...}
		...
	}
	$returns?: {...}
	...
}
#List: {
	#do:       "list"
	#provider: "kube"
	$params: {
		cluster: *"" | string
		resource: {...}
		filter?: {
			namespace?: string
			matchingLabels?: {...}
			...
		}
		...
	}
	$returns?: {
		items?: [...{...}]
		...
	}
	...
}
"#;

const CONFIG: &str = r#"
#ReadConfig: {
	#do:       "read"
	#provider: "config"
	$params: {
		name:      string
		namespace: *"" | string
		...
	}
	$returns?: {
		config?: {...}
		...
	}
	...
}
#ListConfig: {
	#do:       "list"
	#provider: "config"
	$params: {
		template:  string
		namespace: *"" | string
		...
	}
	$returns?: {
		configs?: [...{
			name: string
			config?: {...}
			...
		}]
		...
	}
	...
}
"#;

const CUE: &str = r#"
#StrategyUnify: {
	#do:       "strategyUnify"
	#provider: "cue"
	$params: {
		value: _
		patch: _
		...
	}
	$returns?: _
	...
}
"#;
