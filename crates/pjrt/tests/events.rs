//! Events on the real CPU plugins: waited for, asked, awaited and called back from.

mod plugins;

use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use shardwright_pjrt::{
    Arg, Client, ClientOptions, CompileOptions, Event, LoadedExecutable, Plugin, ProgramFormat,
};
use shardwright_tensor::{DType, HostArray, TensorType};

use self::plugins::on_each_cpu_plugin;

/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(300);

on_each_cpu_plugin! {
    waiting_can_run_out_of_time_and_be_taken_up_again,
    events_are_awaited_from_any_thread,
    callbacks_are_called_once_each_and_their_panics_stay_where_they_are,
}

/// A program that takes a while.
fn slow(plugin: &Plugin) -> LoadedExecutable {
    let client = Client::new(plugin, &ClientOptions::default().with("cpu_device_count", 1)).unwrap();
    let text = "
        func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
          %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
              : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
          return %y : tensor<1024x1024xf32>
        }";
    client.compile(text.as_bytes(), ProgramFormat::Mlir, &CompileOptions::default()).unwrap()
}

/// The end of a run of the slow program.
fn start(program: &LoadedExecutable) -> Event {
    let x = HostArray::zeros(TensorType::new(DType::F32, [1024, 1024]).unwrap());
    let x = program.client().buffer_from_owned(x, &program.client().devices()[0]).unwrap();
    program.execute(vec![Arg::Donate(vec![x])]).unwrap().done.remove(0)
}

/// Runs a future on this thread, which sleeps until it is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn waiting_can_run_out_of_time_and_be_taken_up_again(plugin: &Plugin) {
    let program = slow(plugin);
    let ran_out = (0..1000).any(|_| {
        let event = start(&program);
        let ended = event.wait_timeout(Duration::ZERO).unwrap();
        assert_eq!(event.wait_timeout(LONG), Ok(true));
        assert_eq!((event.is_ready(), event.wait()), (Ok(true), Ok(())));
        !ended
    });
    assert!(ran_out, "in a thousand tries the program always ended at once");
}

fn events_are_awaited_from_any_thread(plugin: &Plugin) {
    let event = start(&slow(plugin));
    let elsewhere = thread::spawn({
        let event = event.clone();
        || block_on(async { event.await })
    });
    let both = async { (event.clone().await, event.await) };
    assert_eq!(block_on(both), (Ok(()), Ok(())));
    assert_eq!(elsewhere.join().unwrap(), Ok(()));
}

fn callbacks_are_called_once_each_and_their_panics_stay_where_they_are(plugin: &Plugin) {
    let (sender, receiver) = channel();
    let program = slow(plugin);
    let event = start(&program);
    for number in 0..4 {
        let sender = sender.clone();
        let callback = move |result| {
            sender.send((number, result)).unwrap();
            if number % 2 == 1 {
                // A panic without the report.
                resume_unwind(Box::new(number));
            }
        };
        event.on_ready(callback).unwrap();
    }
    drop(event);
    let mut calls = [(); 4].map(|()| receiver.recv_timeout(LONG).unwrap());
    calls.sort_by_key(|(number, _)| *number);
    assert_eq!(calls, [0, 1, 2, 3].map(|number| (number, Ok(()))));
    drop(sender);
    assert_eq!(receiver.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
    start(&program).wait().unwrap();
}
