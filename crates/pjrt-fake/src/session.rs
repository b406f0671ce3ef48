//! A test's view of the plugin: function tables, what is alive, what was called, which rules were broken.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use shardwright_pjrt_sys::{self as sys, Struct};

use crate::call::functions;
use crate::failure::Failure;
use crate::registry::Shared;
use crate::{buffer, client, event, executable, execute, failure, manager, registry, topology, work};

/// The turn of one test, as what the plugin keeps is one for the process.
///
/// Its end waits for all work, and fails the test if an object is left or a rule was broken.
pub struct Session {
    _turn: MutexGuard<'static, ()>,
}

#[derive(Default)]
struct State {
    /// Whether there is a session, which hears of broken rules.
    is_watched: bool,
    calls: BTreeMap<&'static str, usize>,
    violations: Vec<String>,
    fails: Option<(&'static str, Failure)>,
}

static TURN: Mutex<()> = Mutex::new(());
static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Waits for the turn and begins.
    pub fn begin() -> Session {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        registry::clear();
        *state() = State { is_watched: true, ..State::default() };
        Session { _turn: turn }
    }

    /// A new function table, changed as the caller likes. It is valid for ever, and is no other plugin's.
    pub fn table(&self, change: impl FnOnce(&mut sys::PJRT_Api)) -> *mut sys::PJRT_Api {
        let table = new_table();
        // SAFETY: the table has just been made, and nobody else knows of it.
        change(unsafe { &mut *table });
        table
    }

    /// How many objects of each kind are alive.
    pub fn live(&self) -> BTreeMap<&'static str, usize> {
        registry::live()
    }

    /// How often the function has been called.
    pub fn calls(&self, function: &str) -> usize {
        state().calls.get(function).copied().unwrap_or(0)
    }

    /// Lets each call of the function fail with this status, or, with 0, do its work again.
    pub fn fail(&self, function: &'static str, code: u32, message: &str) {
        state().fails = (code != 0).then(|| (function, Failure::new(code, message)));
    }

    /// Has late work done, and waits for it.
    pub fn release(&self) {
        work::finish();
    }

    /// Forgets all objects, in a test that leaves some on purpose.
    pub fn forget(&self) {
        work::finish();
        registry::clear();
    }

    /// The rules that were broken; they are forgotten with that.
    pub fn violations(&self) -> Vec<String> {
        std::mem::take(&mut state().violations)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        work::end();
        let (live, violations) = (self.live(), self.violations());
        state().is_watched = false;
        if !std::thread::panicking() {
            assert!(live.is_empty(), "left behind: {live:?}");
            assert!(violations.is_empty(), "rules broken: {violations:?}");
        }
    }
}

/// Notes a call, which fails if it has been told to.
pub(crate) fn called(function: &'static str) -> Result<(), Failure> {
    let mut state = state();
    *state.calls.entry(function).or_insert(0) += 1;
    match &state.fails {
        Some((told, failure)) if *told == function => Err(failure.clone()),
        _ => Ok(()),
    }
}

/// Notes that the caller broke a rule; without a session this ends the process.
pub(crate) fn violation(message: String) {
    let mut state = state();
    if state.is_watched {
        state.violations.push(message);
        return;
    }
    drop(state);
    panic!("a rule of PJRT was broken: {message}");
}

/// The table of the plugin as it is loaded, one for the process.
pub(crate) fn loaded_table() -> *mut sys::PJRT_Api {
    static TABLE: LazyLock<Shared<*mut sys::PJRT_Api>> = LazyLock::new(|| Shared(new_table()));
    TABLE.0
}

/// A table that is kept for ever, as the tables of plugins are.
fn new_table() -> *mut sys::PJRT_Api {
    static TABLES: Mutex<Vec<Shared<*mut sys::PJRT_Api>>> = Mutex::new(Vec::new());
    let table = Box::into_raw(Box::new(table()));
    TABLES.lock().unwrap_or_else(PoisonError::into_inner).push(Shared(table));
    table
}

fn table() -> sys::PJRT_Api {
    // SAFETY: the table consists of sizes, version numbers, pointers and nullable functions.
    let mut table: sys::PJRT_Api = unsafe { std::mem::zeroed() };
    table.struct_size = sys::PJRT_Api_STRUCT_SIZE as usize;
    table.pjrt_api_version = sys::PJRT_Api_Version {
        major_version: sys::PJRT_API_MAJOR as i32,
        minor_version: sys::PJRT_API_MINOR as i32,
        ..Struct::new()
    };
    static SHARDINGS: LazyLock<Shared<Box<sys::PJRT_Shardings_Extension>>> =
        LazyLock::new(|| Shared(Box::new(executable::shardings_extension())));
    table.extension_start = (&raw const *SHARDINGS.0).cast_mut().cast();
    table.PJRT_Error_Destroy = Some(failure::error_destroy);
    table.PJRT_Error_Message = Some(failure::error_message);
    let modules = [
        fill,
        failure::fill,
        event::fill,
        topology::fill,
        client::fill,
        executable::fill,
        execute::fill,
        buffer::fill,
        manager::fill,
    ];
    modules.into_iter().for_each(|fill| fill(&mut table));
    table
}

/// One attribute of each type, and one of a type that the header does not have.
fn attributes() -> [sys::PJRT_NamedValue; 6] {
    type Value = sys::PJRT_NamedValue__bindgen_ty_1;
    const VERSION: [i64; 3] = [1, 2, 3];
    const WORDS: &str = "a plugin for tests";
    let attribute = |name: &'static str, type_, value, value_size| sys::PJRT_NamedValue {
        name: name.as_ptr().cast(),
        name_size: name.len(),
        type_,
        __bindgen_anon_1: value,
        value_size,
        ..Struct::new()
    };
    let version = Value { int64_array_value: VERSION.as_ptr() };
    let words = Value { string_value: WORDS.as_ptr().cast() };
    [
        attribute("stablehlo_current_version", sys::PJRT_NamedValue_kInt64List, version, VERSION.len()),
        attribute("words", sys::PJRT_NamedValue_kString, words, WORDS.len()),
        attribute("of a later type", 99, Value { int64_value: 1 }, 1),
        attribute("integer", sys::PJRT_NamedValue_kInt64, Value { int64_value: -7 }, 1),
        attribute("number", sys::PJRT_NamedValue_kFloat, Value { float_value: 0.5 }, 1),
        attribute("truth", sys::PJRT_NamedValue_kBool, Value { bool_value: true }, 1),
    ]
}

functions! {
    fn PJRT_Plugin_Initialize(_args: PJRT_Plugin_Initialize_Args) {
        Ok(())
    }

    fn PJRT_Plugin_Attributes(args: PJRT_Plugin_Attributes_Args) {
        static ATTRIBUTES: LazyLock<Shared<[sys::PJRT_NamedValue; 6]>> = LazyLock::new(|| Shared(attributes()));
        (args.attributes, args.num_attributes) = (ATTRIBUTES.0.as_ptr(), ATTRIBUTES.0.len());
        Ok(())
    }
}
