//! The changes of all gateways, by LISTEN and NOTIFY.

use std::pin::pin;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::time::timeout;
use tokio_postgres::AsyncMessage;
use weir_postgres::Address;

use crate::change::{Announcer, Change};

/// The channel, in the database of the store.
pub(super) const CHANNEL: &str = "weir";

/// How often is told, while the database tells no changes, that there may be some.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// How long connecting takes at most.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Tells changes until it is dropped, on a connection of its own.
pub(super) async fn listen(address: Address, announcer: Announcer) {
    loop {
        follow(&address, &announcer).await;
        announcer.tell(Change::Unknown);
        tokio::time::sleep(RETRY_EVERY).await;
    }
}

/// Tells changes until the connection ends.
async fn follow(address: &Address, announcer: &Announcer) {
    let Ok(Ok((client, mut connection))) = timeout(CONNECT_TIMEOUT, address.connect()).await else { return };
    let mut messages = pin!(stream::poll_fn(move |context| connection.poll_message(context)));
    let statement = format!("LISTEN {CHANNEL}");
    let mut listening = pin!(client.batch_execute(&statement));
    let mut is_listening = false;
    loop {
        tokio::select! {
            begun = &mut listening, if !is_listening => {
                if begun.is_err() {
                    return;
                }
                is_listening = true;
                // what was changed before
                announcer.tell(Change::Unknown);
            }
            message = messages.next() => match message {
                Some(Ok(AsyncMessage::Notification(told))) => announcer.tell(Change::from_text(told.payload())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
        }
    }
}
