//! The options of a client, as the documentation of the crate lists them.

use shardwright_pjrt_sys as sys;

use crate::call::text;
use crate::failure::Failure;
use crate::work::When;

pub(crate) struct Options {
    pub(crate) devices: i64,
    pub(crate) addressable: Option<i64>,
    pub(crate) process_index: i64,
    pub(crate) when: When,
    pub(crate) fail: Option<u32>,
    pub(crate) put: Option<(String, String)>,
    pub(crate) put_later: Option<(String, String)>,
    pub(crate) get: Option<String>,
    pub(crate) try_get: Option<String>,
    pub(crate) timeout_ms: i64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            devices: 1,
            addressable: None,
            process_index: 0,
            when: When::Now,
            fail: None,
            put: None,
            put_later: None,
            get: None,
            try_get: None,
            timeout_ms: 1000,
        }
    }
}

impl Options {
    pub(crate) fn read(values: &[sys::PJRT_NamedValue]) -> Result<Options, Failure> {
        let mut options = Options::default();
        for value in values {
            // SAFETY: a named value has a name.
            let name = unsafe { text(value.name, value.name_size) };
            match name.as_str() {
                "devices" => options.devices = integer(value)?,
                "addressable" => options.addressable = Some(integer(value)?),
                "process_index" => options.process_index = integer(value)?,
                "events" => options.when = when(&words(value)?)?,
                "fail" => options.fail = Some(integer(value)? as u32),
                "put" => options.put = Some(pair(&words(value)?)?),
                "put_later" => options.put_later = Some(pair(&words(value)?)?),
                "get" => options.get = Some(words(value)?),
                "try_get" => options.try_get = Some(words(value)?),
                "timeout_ms" => options.timeout_ms = integer(value)?,
                _ => return Err(Failure::invalid(format!("Unknown option: {name}"))),
            }
        }
        Ok(options)
    }
}

fn integer(value: &sys::PJRT_NamedValue) -> Result<i64, Failure> {
    if value.type_ != sys::PJRT_NamedValue_kInt64 {
        return Err(Failure::invalid("the option takes an integer"));
    }
    // SAFETY: the type says which field is filled in.
    Ok(unsafe { value.__bindgen_anon_1.int64_value })
}

fn words(value: &sys::PJRT_NamedValue) -> Result<String, Failure> {
    if value.type_ != sys::PJRT_NamedValue_kString {
        return Err(Failure::invalid("the option takes a text"));
    }
    // SAFETY: the type says which field is filled in, and the size how long the text is.
    Ok(unsafe { text(value.__bindgen_anon_1.string_value, value.value_size) })
}

fn when(words: &str) -> Result<When, Failure> {
    match words {
        "now" => Ok(When::Now),
        "thread" => Ok(When::Thread),
        "late" => Ok(When::Late),
        _ => Err(Failure::invalid(format!("events come now, thread or late, and not {words}"))),
    }
}

fn pair(words: &str) -> Result<(String, String), Failure> {
    let (key, value) = words.split_once('=').ok_or_else(|| Failure::invalid("put takes key=value"))?;
    Ok((key.to_owned(), value.to_owned()))
}
