//! Clients: their options, devices and memories.

use super::*;

#[test]
fn options_that_plugins_take_badly_are_refused() {
    let session = Session::begin();
    let plugin = load(&session);
    let refusal = |options: ClientOptions| Client::new(&plugin, &options).unwrap_err().to_string();
    let count = |count: i64| ClientOptions::default().with("cpu_device_count", count);
    for found in [i64::MIN, -1, 0, 1025, 100_000, 4_294_967_297] {
        assert_eq!(
            refusal(count(found)),
            format!("refused: client: the option cpu_device_count is {found}, expected 1 to 1024")
        );
    }
    let twice = ClientOptions::default().with("devices", 1).with("devices", 1);
    assert_eq!(refusal(twice), "refused: client: the option devices is given twice");
    let store = std::sync::Arc::new(MemoryStore::default());
    assert_eq!(Client::with_store(&plugin, &count(0), store).unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(session.calls("PJRT_Client_Create"), 0);
    // What is not out of range is the plugin's matter.
    for options in [count(1), count(1024), ClientOptions::default().with("cpu_device_count", "many")] {
        assert_eq!(
            refusal(options),
            "invalid argument: PJRT_Client_Create: Unknown option: cpu_device_count"
        );
    }
}

#[test]
fn devices_of_other_processes_have_no_memories() {
    let session = Session::begin();
    let options = ClientOptions::default().with("devices", 2).with("addressable", 1);
    let client = Client::new(&load(&session), &options).unwrap();
    let kinds =
        |index: usize| client.devices()[index].memories().iter().map(Memory::kind).collect::<Vec<_>>();
    assert_eq!((kinds(0), kinds(1)), (vec!["device", "pinned_host"], vec![]));
    assert_eq!(client.devices()[1].default_memory(), None);
}

#[test]
fn all_that_is_known_of_a_devices_memory_is_told() {
    let session = Session::begin();
    let client = client(&session, 1, "late");
    let _held = put(&client, &[1., 2.]);
    assert_eq!(
        client.devices()[0].memory_stats().unwrap(),
        DeviceMemoryStats {
            bytes_in_use: 8,
            peak_bytes_in_use: Some(2),
            num_allocs: Some(3),
            largest_alloc_size: Some(4),
            bytes_limit: Some(5),
            bytes_reserved: Some(6),
            peak_bytes_reserved: Some(7),
            bytes_reservable_limit: Some(8),
            largest_free_block_bytes: Some(9),
            pool_bytes: Some(10),
            peak_pool_bytes: None,
        }
    );
}
