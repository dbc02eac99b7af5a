//! Which requests share a connection.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::Response;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::{Barrier, mpsc, watch};

use super::network::{Tls, trusting};
use super::{LIMITS, call, client, post, read_request, reply, server};
use crate::{Priority, UpstreamClient};

/// A server that sends the replies in turn over each connection, closes it after the last, and counts connections.
async fn counting(replies: Vec<String>) -> (UpstreamClient, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let address = server(move |mut stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        let replies = replies.clone();
        async move {
            for reply in replies {
                if read_request(&mut stream).await.is_none() {
                    return;
                }
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    (client(&address), connections)
}

fn chunked(chunks: &[&str]) -> String {
    let chunks: String = chunks.iter().map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len())).collect();
    format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
}

#[tokio::test]
async fn requests_after_one_another_share_a_connection_however_the_end_of_a_reply_is_told() {
    let replies = [reply(200, "", "answer"), reply(200, "", ""), chunked(&["an", "swer"]), chunked(&[])];
    let (client, connections) = counting(vec![replies; 5].concat()).await;
    for _ in 0..5 {
        for expected in ["answer", "", "answer", ""] {
            assert_eq!(call(&client).await.unwrap(), expected);
        }
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_error_that_was_read_leaves_its_connection_to_the_next_request() {
    let (client, connections) = counting(vec![reply(500, "", "broken"), reply(200, "", "answer")]).await;
    call(&client).await.unwrap_err();
    assert_eq!(call(&client).await.unwrap(), "answer");
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn each_task_that_uses_a_connection_is_woken_by_its_reply() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let address = server(move |mut stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            while read_request(&mut stream).await.is_some() {
                for part in
                    ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "1\r\na\r\n", "0\r\n\r\n"]
                {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    stream.write_all(part.as_bytes()).await.unwrap();
                }
            }
        }
    })
    .await;
    let client = Arc::new(client(&address));
    for _ in 0..3 {
        let client = client.clone();
        let called = tokio::spawn(async move { call(&client).await.unwrap() });
        let reply = tokio::time::timeout(Duration::from_secs(10), called).await;
        assert_eq!(reply.expect("the task is woken").unwrap(), "a");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn requests_at_one_time_have_a_connection_each_and_no_more_are_made_later() {
    let connections = Arc::new(AtomicUsize::new(0));
    let (counted, both) = (connections.clone(), Arc::new(Barrier::new(2)));
    let address = server(move |mut stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        let both = both.clone();
        async move {
            while read_request(&mut stream).await.is_some() {
                both.wait().await;
                stream.write_all(reply(200, "", "answer").as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let client = client(&address);
    for _ in 0..5 {
        for answer in join_all([call(&client), call(&client)]).await {
            assert_eq!(answer.unwrap(), "answer");
        }
    }
    assert_eq!(connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_connection_that_the_server_ends_is_not_used_again() {
    for replies in
        [vec![reply(200, "", "answer")], vec![reply(200, "connection: close\r\n", "answer"), String::new()]]
    {
        let (client, connections) = counting(replies).await;
        for count in 1..=3 {
            assert_eq!(call(&client).await.unwrap(), "answer");
            assert_eq!(connections.load(Ordering::Relaxed), count);
            tokio::time::sleep(Duration::from_millis(50)).await; // until the end of the connection has come
        }
    }
}

#[tokio::test]
async fn a_reply_that_is_left_before_its_end_leaves_no_connection() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nanswer".to_owned();
    let (client, connections) = counting(vec![cut; 2]).await;
    for count in 1..=2 {
        let permit = client.permit(Priority::Interactive, None).await.unwrap();
        drop(client.send(post(LIMITS), permit).await.unwrap());
        assert_eq!(connections.load(Ordering::Relaxed), count);
    }
}

#[tokio::test]
async fn a_connection_that_nobody_uses_is_closed() {
    let (closed, mut is_closed) = mpsc::channel(1);
    let address = server(move |mut stream| {
        let closed = closed.clone();
        async move {
            while read_request(&mut stream).await.is_some() {
                stream.write_all(reply(200, "", "answer").as_bytes()).await.unwrap();
            }
            closed.send(()).await.unwrap();
        }
    })
    .await;
    let client = client(&address);
    call(&client).await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(10)).await;
    tokio::time::resume();
    assert_eq!(call(&client).await.unwrap(), "answer");
    assert!(is_closed.try_recv().is_err(), "it was idle for 10 s only");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    let closed = tokio::time::timeout(Duration::from_secs(10), is_closed.recv()).await;
    closed.expect("it was idle for more than 15 s, twice the time between two looks at it");
}

#[tokio::test]
async fn requests_over_http_2_share_a_connection_at_one_time_until_it_ends() {
    const REQUESTS: usize = 2; // as many as the client may have in flight
    let tls = Tls::new(&["h2"]);
    let connections = Arc::new(AtomicUsize::new(0));
    let (counted, acceptor) = (connections.clone(), tls.acceptor.clone());
    let (end, ends) = watch::channel(());
    let address = server(move |stream: TcpStream| {
        counted.fetch_add(1, Ordering::Relaxed);
        let (acceptor, mut ends) = (acceptor.clone(), ends.clone());
        ends.mark_unchanged();
        let all = Arc::new(Barrier::new(REQUESTS));
        async move {
            let stream = acceptor.accept(stream).await.unwrap();
            let numbered = AtomicUsize::new(0);
            let answer = service_fn(move |_| {
                // the first request comes alone, the others are answered when all of them are there
                let waits = numbered.fetch_add(1, Ordering::Relaxed) > 0;
                let all = all.clone();
                async move {
                    if waits {
                        all.wait().await;
                    }
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("answer"))))
                }
            });
            let served = auto::Builder::new(TokioExecutor::new());
            tokio::select! {
                served = served.serve_connection(TokioIo::new(stream), answer) => drop(served),
                _ = ends.changed() => {}
            }
        }
    })
    .await;
    let client = trusting(&format!("https://{address}"), &tls, &Matcher::builder().build());
    for count in 1..=2 {
        assert_eq!(call(&client).await.unwrap(), "answer");
        for answer in join_all((0..REQUESTS).map(|_| call(&client))).await {
            assert_eq!(answer.unwrap(), "answer");
        }
        assert_eq!(connections.load(Ordering::Relaxed), count);
        end.send(()).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await; // until the end of the connection has come
    }
}
