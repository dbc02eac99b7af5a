//! The page about several gateways: its blocks start them over a PostgreSQL server of the test, behind nginx.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use super::blocks::blocks;
use super::runner::{Runner, working_folder};
use super::{PAGE_TO_SCALE, copy_sample};
use crate::llm::postgres::Postgres;

/// Ends what the blocks have started and a failure has left.
struct Processes<'a>(&'a Path);

impl Drop for Processes<'_> {
    fn drop(&mut self) {
        let pids = ["gateways.pid", "nginx.pid"].map(|file| std::fs::read_to_string(self.0.join(file)));
        for pid in pids.iter().flatten().flat_map(|pids| pids.split_whitespace()) {
            let _ = Command::new("kill").args(["-KILL", pid]).output();
        }
    }
}

#[test]
fn examples_of_the_page_to_scale_run() {
    let server = Postgres::start();
    let folder = working_folder();
    let _processes = Processes(folder.path());
    copy_sample(&folder.path().join("weir-data"));
    let listeners: Vec<TcpListener> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let ports: Vec<String> =
        listeners.iter().map(|listener| listener.local_addr().unwrap().port().to_string()).collect();
    drop(listeners);
    let replaced = ["8000", "8011", "8012", "8013"].into_iter().zip(ports).collect();
    let variables = vec![("STORE_URL", server.url())];
    let mut runner = Runner::new(folder.path(), None, String::new()).with_servers(replaced, variables);
    for block in &blocks(PAGE_TO_SCALE) {
        println!("{}", block.place);
        runner.check(block, None);
    }
}
