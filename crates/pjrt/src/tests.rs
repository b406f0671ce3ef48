//! How the safe layer treats a plugin, seen from the plugin's side.
//!
//! The plugin is `shardwright-pjrt-fake`. Each test has it for itself, as a [`Session`], whose end checks that nothing
//! was left behind, freed twice, or used after it was freed.

mod client;
mod contract;
mod errors;
mod events;
mod execute;
mod extensions;
mod store;
mod transfer;

use std::path::Path;

use shardwright_pjrt_fake::Session;
use shardwright_pjrt_sys as sys;
use shardwright_tensor::HostArray;

use crate::*;

/// Far longer than anything here takes.
const LONG: std::time::Duration = std::time::Duration::from_secs(300);

/// What the path of the plugin is said to be; the table makes the plugin.
const FILE: &str = "fake.so";

fn try_load(session: &Session, change: impl FnOnce(&mut sys::PJRT_Api)) -> Result<Plugin, Error> {
    // SAFETY: the session's tables are whole, whatever they say of themselves, and live for ever.
    unsafe { Plugin::from_table(Path::new(FILE), session.table(change)) }
}

fn load(session: &Session) -> Plugin {
    try_load(session, |_| ()).unwrap()
}

/// A client with these devices, whose work is done when `events` says.
fn client(session: &Session, devices: i64, events: &str) -> Client {
    client_of(&load(session), devices, events)
}

fn client_of(plugin: &Plugin, devices: i64, events: &str) -> Client {
    let options = ClientOptions::default().with("devices", devices).with("events", events);
    Client::new(plugin, &options).unwrap()
}

fn compile(client: &Client, program: &str) -> Result<LoadedExecutable, Error> {
    client.compile(program.as_bytes(), ProgramFormat::Mlir, &CompileOptions::default())
}

fn array(values: &[f32]) -> HostArray {
    HostArray::from_slice(&[values.len()], values).unwrap()
}

fn put(client: &Client, values: &[f32]) -> Vec<Buffer> {
    vec![client.buffer_from_host(&array(values), &client.devices()[0]).unwrap()]
}
