//! What is alive. Objects are numbers to the caller; behind each is its kind, its owner and its value.

use std::any::Any;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::failure::Failure;
use crate::session;

/// A kind of object: what it is in the C API and in messages.
pub(crate) trait Object: Send + Sync + 'static {
    type Raw;
    const KIND: &'static str;
}

/// A value with handles in it, or with pointers into what lives as long as the value and does not change.
pub(crate) struct Shared<T>(pub(crate) T);

// SAFETY: handles are numbers, and the other pointers lead to what nobody changes.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as for `Send`.
unsafe impl<T> Sync for Shared<T> {}

struct Entry {
    kind: &'static str,
    owner: usize,
    object: Arc<dyn Any + Send + Sync>,
}

struct Registry {
    last: usize,
    live: BTreeMap<usize, Entry>,
}

impl Registry {
    fn get<O: Object>(&self, address: usize) -> Option<Arc<O>> {
        let entry = self.live.get(&address)?;
        Arc::clone(&entry.object).downcast().ok()
    }
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { last: 0, live: BTreeMap::new() });

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle for an object that is yet to be made.
pub(crate) fn reserve<O: Object>() -> *mut O::Raw {
    let mut registry = registry();
    registry.last += 1;
    // Spaced as addresses are, so that none is taken for a flag or a null; nobody follows them.
    ptr::without_provenance_mut(registry.last * 16)
}

/// Puts an object behind its handle. Its owner, which may be null, must not go before it.
pub(crate) fn put<O: Object, W>(handle: *mut O::Raw, owner: *const W, object: O) {
    let entry = Entry { kind: O::KIND, owner: owner.addr(), object: Arc::new(object) };
    registry().live.insert(handle.addr(), entry);
}

/// A new object.
pub(crate) fn insert<O: Object, W>(owner: *const W, object: O) -> *mut O::Raw {
    let handle = reserve::<O>();
    put(handle, owner, object);
    handle
}

/// The object behind a handle.
pub(crate) fn get<O: Object>(handle: *const O::Raw) -> Result<Arc<O>, Failure> {
    registry().get::<O>(handle.addr()).ok_or_else(|| unknown::<O>(handle))
}

/// Takes an object out, which has to be there, and after all that it owns.
pub(crate) fn remove<O: Object>(handle: *const O::Raw) -> Result<Arc<O>, Failure> {
    let address = handle.addr();
    let mut registry = registry();
    let Some(object) = registry.get::<O>(address) else {
        drop(registry);
        return Err(unknown::<O>(handle));
    };
    registry.live.remove(&address);
    let owned = registry.live.values().filter(|entry| entry.owner == address);
    let orphans: Vec<&str> = owned.map(|entry| entry.kind).collect();
    drop(registry);
    if !orphans.is_empty() {
        session::violation(format!("{} destroyed before its {}", O::KIND, orphans.join(", ")));
    }
    Ok(object)
}

fn unknown<O: Object>(handle: *const O::Raw) -> Failure {
    let what = if handle.is_null() { "null" } else { "what is none, or is gone," };
    let message = format!("{what} given as {}", O::KIND);
    session::violation(message.clone());
    Failure::internal(message)
}

/// How many objects of each kind there are.
pub(crate) fn live() -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for entry in registry().live.values() {
        *counts.entry(entry.kind).or_insert(0) += 1;
    }
    counts
}

/// The objects of one kind and owner.
pub(crate) fn owned<O: Object, W>(owner: *const W) -> Vec<Arc<O>> {
    let registry = registry();
    let owned = registry.live.values().filter(|entry| entry.owner == owner.addr());
    owned.filter_map(|entry| Arc::clone(&entry.object).downcast().ok()).collect()
}

/// Forgets everything, so that one failed test does not fail the next.
pub(crate) fn clear() {
    let live = std::mem::take(&mut registry().live);
    // Outside the lock: what goes may call back.
    drop(live);
}
