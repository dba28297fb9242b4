//! The examples of the documentation run as they are written.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kube::api::{DynamicObject, PostParams};
use vela_tests::chart_server::{ChartServer, EXAMPLE};
use vela_tests::fixtures::Space;
use vela_tests::material::workspace;

/// How long the webhook may take to see a definition that an example brings along.
const HEARD: Duration = Duration::from_secs(20);

fn files() -> Vec<PathBuf> {
    let folder = workspace().join("docs/examples");
    let mut files: Vec<PathBuf> = [folder.clone(), folder.join("features")]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    files
}

/// The objects of a file, without the namespace they may name.
fn objects(file: &Path, charts: &ChartServer) -> Vec<DynamicObject> {
    let text = std::fs::read_to_string(file).unwrap().replace(EXAMPLE, charts.address());
    let mut objects: Vec<DynamicObject> = serde_saphyr::from_multiple(&text).unwrap();
    for object in &mut objects {
        object.metadata.namespace = None;
    }
    objects
}

async fn create(space: &Space, object: &DynamicObject) {
    let types = object.types.clone().unwrap();
    let api = space.objects(&types.api_version, &types.kind);
    let deadline = Instant::now() + HEARD;
    while let Err(error) = api.create(&PostParams::default(), object).await {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        assert!(Instant::now() < deadline, "{} {name}: {error}", types.kind);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn the_examples_of_the_documentation_run() {
    let space = Space::with_programs("examples").await;
    let charts = ChartServer::of_examples().await.unwrap();
    let files = files();
    assert!(files.len() > 15, "{} examples", files.len());
    for file in &files {
        for object in objects(file, &charts) {
            create(&space, &object).await;
            if object.types.is_some_and(|types| types.kind == "Application") {
                space.running(object.metadata.name.as_deref().unwrap()).await;
            }
        }
    }
}
