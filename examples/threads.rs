//! The samples of each thread of a profile, in Rust, without crates: the few functions and the first
//! members of the structs that it needs are declared here. (bindgen makes all of them from the
//! headers.)
//!
//!     rustc threads.rs -l spex-profile -o threads
//!     ./threads perf.data
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::{env, process, ptr};

/// The beginning of struct spex_analysis_options: a shorter struct means what it meant.
#[repr(C)]
struct Options {
    size: usize,
    want: u32,
    raw: bool,
    ordered: bool,
}
const WANT_BASE: u32 = 1;

#[repr(C)]
struct Error {
    status: c_int,
    offset: u64,
    text: [c_char; 240],
}

#[repr(C)]
struct ThreadTotal {
    comm: *const c_char,
    pid: i32,
    tid: i32,
    samples: u64,
    zero: u64,
}

type Sink = extern "C" fn(*mut c_void, *const c_void, usize);

extern "C" {
    fn spex_analysis_open(path: *const c_char, options: *const Options, analysis: *mut *mut c_void,
                          error: *mut Error) -> c_int;
    fn spex_analysis_run(analysis: *mut c_void, sink: Option<Sink>, context: *mut c_void,
                         error: *mut Error) -> c_int;
    fn spex_analysis_thread(analysis: *const c_void, index: usize, total: *mut ThreadTotal) -> bool;
    fn spex_analysis_close(analysis: *mut c_void);
}

/// Closes the profile on every way out.
struct Profile(*mut c_void);
impl Drop for Profile {
    fn drop(&mut self) {
        unsafe { spex_analysis_close(self.0) }
    }
}

fn checked(status: c_int, error: &Error) -> Result<(), String> {
    match status {
        0 => Ok(()),
        _ => Err(unsafe { CStr::from_ptr(error.text.as_ptr()) }.to_string_lossy().into_owned()),
    }
}

fn print_threads(path: &str) -> Result<(), String> {
    let path = CString::new(path).map_err(|e| e.to_string())?;
    let options = Options { size: std::mem::size_of::<Options>(), want: WANT_BASE, raw: false,
                            ordered: false };
    let mut error = Error { status: 0, offset: 0, text: [0; 240] };
    let mut profile = Profile(ptr::null_mut());
    unsafe {
        let status = spex_analysis_open(path.as_ptr(), &options, &mut profile.0, &mut error);
        checked(status, &error)?;
        let status = spex_analysis_run(profile.0, None, ptr::null_mut(), &mut error);
        checked(status, &error)?;
        let mut t = ThreadTotal { comm: ptr::null(), pid: 0, tid: 0, samples: 0, zero: 0 };
        for i in 0.. {
            if !spex_analysis_thread(profile.0, i, &mut t) {
                break;
            }
            let comm = if t.comm.is_null() { "".into() } else { CStr::from_ptr(t.comm).to_string_lossy() };
            println!("{} {} {}", t.tid, comm, t.samples);
        }
    }
    Ok(())
}

fn main() {
    if let Err(text) = print_threads(&env::args().nth(1).unwrap_or("perf.data".into())) {
        eprintln!("threads: {text}");
        process::exit(1);
    }
}
