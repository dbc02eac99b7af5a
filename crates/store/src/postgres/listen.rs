//! The changes of all gateways, by LISTEN and NOTIFY. The connection that receives them also checks whether the server answers.

use std::pin::pin;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::time::timeout;
use tokio_postgres::AsyncMessage;
use weir_postgres::Address;

use super::answering::Answering;
use crate::change::{Announcer, Change};

/// The channel, in the database of the store.
pub(super) const CHANNEL: &str = "weir";

/// How often possible changes are announced while the database sends none.
const RETRY_EVERY: Duration = Duration::from_millis(500);

/// How long connecting takes at most.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the server is asked for an answer, and how long that takes at most.
const PING_EVERY: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// Why the connection is not there any more.
enum Lost {
    /// It could not be opened, or was closed.
    Closed,
    /// The server did not answer in time.
    Silent,
}

/// Tells changes until it is dropped, on a connection of its own.
pub(super) async fn listen(address: Address, announcer: Announcer, answering: Answering) {
    loop {
        let lost = follow(&address, &announcer, &answering).await;
        answering.set(matches!(lost, Lost::Closed));
        announcer.tell(Change::Unknown);
        tokio::time::sleep(RETRY_EVERY).await;
    }
}

/// Tells changes until the connection ends.
async fn follow(address: &Address, announcer: &Announcer, answering: &Answering) -> Lost {
    let (client, mut connection) = match timeout(CONNECT_TIMEOUT, address.connect()).await {
        Ok(Ok(connected)) => connected,
        Ok(Err(_)) => return Lost::Closed,
        Err(_) => return Lost::Silent,
    };
    let mut messages = pin!(stream::poll_fn(move |context| connection.poll_message(context)));
    let tell = async {
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(told) = message {
                announcer.tell(Change::from_text(told.payload()));
            }
        }
        Lost::Closed
    };
    let ask = async {
        let mut statement = format!("LISTEN {CHANNEL}");
        loop {
            match timeout(PING_TIMEOUT, client.batch_execute(&statement)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Lost::Closed,
                Err(_) => return Lost::Silent,
            }
            if !statement.is_empty() {
                statement.clear();
                answering.set(true);
                // what was changed before
                announcer.tell(Change::Unknown);
            }
            tokio::time::sleep(PING_EVERY).await;
        }
    };
    let (tell, ask) = (pin!(tell), pin!(ask));
    tokio::select! {
        lost = tell => lost,
        lost = ask => lost,
    }
}
