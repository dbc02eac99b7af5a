//! The transport of a connection that has no task of its own.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use hyper::rt::{Read, ReadBufCursor, Write};

use crate::connect::Transport;

/// The task that is woken when a transport can be read or written.
#[derive(Clone)]
pub(crate) struct Task(Arc<Mutex<Waker>>);

impl Task {
    /// Makes the task of `context` the one that is woken.
    pub(crate) fn set(&self, context: &Context<'_>) {
        self.lock().clone_from(context.waker());
    }

    fn lock(&self) -> MutexGuard<'_, Waker> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A transport that wakes its [`Task`], whatever waker it is polled with.
pub(crate) struct TaskTransport {
    inner: Transport,
    task: Task,
}

impl TaskTransport {
    /// The transport, and its task, which is none yet.
    pub(crate) fn new(inner: Transport) -> (TaskTransport, Task) {
        let task = Task(Arc::new(Mutex::new(Waker::noop().clone())));
        (TaskTransport { inner, task: task.clone() }, task)
    }

    fn poll<T>(&mut self, poll: impl FnOnce(Pin<&mut Transport>, &mut Context<'_>) -> Poll<T>) -> Poll<T> {
        let waker = self.task.lock();
        poll(Pin::new(&mut self.inner), &mut Context::from_waker(&waker))
    }
}

impl Read for TaskTransport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
        self.poll(|inner, context| inner.poll_read(context, buffer))
    }
}

impl Write for TaskTransport {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.poll(|inner, context| inner.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.poll(|inner, context| inner.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll(|inner, context| inner.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll(|inner, context| inner.poll_shutdown(context))
    }
}
