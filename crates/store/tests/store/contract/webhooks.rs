//! The contract on webhooks of jobs.

use weir_store::{DueWebhook, Error, NewWebhook, Webhook, WebhookOutcome};

use super::*;

fn told(job: &str, documents: &[NewDocument], host: &str) -> Submission {
    let origin = format!("http://{host}");
    let webhook = Some(NewWebhook { url: format!("{origin}/hook"), origin, open_max: 3 });
    Submission { webhook, ..submission(job, documents) }
}

async fn webhook(store: &Store, job: &str) -> Option<Webhook> {
    store.job(&Caller::system(), job).await.unwrap().unwrap().webhook
}

/// Begins the due attempts; they are repeated ten seconds later.
async fn claim(store: &Store, now: f64) -> Vec<DueWebhook> {
    store.claim_webhooks(now, now + 10.0, 9, |_| true).await.unwrap()
}

fn names(due: &[DueWebhook]) -> Vec<(&str, u64)> {
    due.iter().map(|one| (one.job.id.as_str(), one.attempt)).collect()
}

pub async fn a_webhook_is_due_when_its_job_ends(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let other = collection(&store, "d").await;
    let accept = async |made: &Collection, submission| {
        view(&store, made).accept(submission, 2.0).await.unwrap().unwrap()
    };
    accept(&made, submission("without", &[document("x", "1")])).await;
    let job = accept(&made, told("completed", &[document("a", "1")], "a")).await;
    let waiting = Webhook { attempts: 0, due_at: None, ended_at: None, error: None };
    assert_eq!(job.webhook, Some(waiting.clone()));
    accept(&made, told("cancelled", &[document("b", "1")], "a")).await;
    accept(&other, told("deleted", &[document("b", "1")], "a")).await;
    assert_eq!(store.next_webhook_due().await.unwrap(), None);
    assert!(claim(&store, 9.0).await.is_empty());

    store.record_applied(made.generation.id, 2, 3.0).await.unwrap();
    store.cancel_job(made.id, "cancelled", 2, Vec::new(), 4.0).await.unwrap();
    view(&store, &other).delete_collection(5.0).await.unwrap();
    assert_eq!(store.next_webhook_due().await.unwrap(), Some(3.0));
    assert_eq!(webhook(&store, "completed").await, Some(Webhook { due_at: Some(3.0), ..waiting.clone() }));
    store.close().await;

    let store = open();
    let due = claim(&store, 4.0).await;
    assert_eq!(names(&due), [("completed", 1), ("cancelled", 1)]);
    assert_eq!((due[0].url.as_str(), due[0].origin.as_str()), ("http://a/hook", "http://a"));
    assert_eq!(due[0].job.finished_at, Some(3.0));
    assert_eq!(names(&claim(&store, 5.0).await), [("deleted", 1)]);
    // a job that ends at once
    let unchanged = told("unchanged", &[document("a", "1")], "a");
    assert!(matches!(
        view(&store, &made).accept(unchanged.clone(), 6.0).await,
        Err(Error::TooManyWebhooks(3))
    ));
    store.finish_webhook("deleted", 1, WebhookOutcome::Delivered, 6.0).await.unwrap();
    let job = view(&store, &made).accept(unchanged, 6.0).await.unwrap().unwrap();
    assert_eq!(job.webhook.unwrap().due_at, Some(6.0));
    close_sound(store).await;
}

pub async fn an_attempt_that_is_not_finished_is_repeated(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    for (job, host) in [("1", "a"), ("2", "b"), ("3", "a")] {
        view(&store, &made).accept(told(job, &[], host), 2.0).await.unwrap();
    }
    let of_b = store.claim_webhooks(3.0, 13.0, 9, |origin| origin == "http://b").await.unwrap();
    assert_eq!(names(&of_b), [("2", 1)]);
    let one = store.claim_webhooks(3.0, 13.0, 1, |_| true).await.unwrap();
    assert_eq!(names(&one), [("1", 1)]);
    store.close().await;

    let store = open();
    assert_eq!(names(&claim(&store, 12.0).await), [("3", 1)]);
    assert_eq!(names(&claim(&store, 13.0).await), [("1", 2), ("2", 2)]);
    // the attempt that was thought to be interrupted does not count
    store.finish_webhook("1", 1, WebhookOutcome::GivenUp("late".to_owned()), 14.0).await.unwrap();
    let pending = Webhook { attempts: 2, due_at: Some(23.0), ended_at: None, error: None };
    assert_eq!(webhook(&store, "1").await, Some(pending));
    close_sound(store).await;
}

pub async fn a_webhook_is_tried_again_until_it_is_delivered_or_given_up(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    for job in ["1", "2"] {
        view(&store, &made).accept(told(job, &[], "a"), 2.0).await.unwrap();
    }
    assert_eq!(claim(&store, 3.0).await.len(), 2);
    let refused = Some("status 500".to_owned());
    for job in ["1", "2"] {
        let outcome = WebhookOutcome::Retry(8.0, "status 500".to_owned());
        store.finish_webhook(job, 1, outcome, 4.0).await.unwrap();
    }
    let pending = Webhook { attempts: 1, due_at: Some(8.0), ended_at: None, error: refused.clone() };
    assert_eq!(webhook(&store, "1").await, Some(pending));
    assert_eq!(store.next_webhook_due().await.unwrap(), Some(8.0));
    assert_eq!(names(&claim(&store, 8.0).await), [("1", 2), ("2", 2)]);
    store.finish_webhook("1", 2, WebhookOutcome::Delivered, 9.0).await.unwrap();
    store.finish_webhook("2", 2, WebhookOutcome::GivenUp("status 410".to_owned()), 9.0).await.unwrap();
    let delivered = Webhook { attempts: 2, due_at: None, ended_at: Some(9.0), error: None };
    assert_eq!(webhook(&store, "1").await, Some(delivered.clone()));
    let given_up = Webhook { error: Some("status 410".to_owned()), ..delivered };
    assert_eq!(webhook(&store, "2").await, Some(given_up));
    assert_eq!(store.next_webhook_due().await.unwrap(), None);
    assert!(claim(&store, 99.0).await.is_empty());
    close_sound(store).await;
}

pub async fn open_webhooks_are_bounded_and_kept_with_their_jobs(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let accept =
        async |job: &str| view(&store, &made).accept(told(job, &[document(job, "1")], "a"), 2.0).await;
    for job in ["1", "2", "3"] {
        accept(job).await.unwrap();
    }
    assert!(matches!(accept("4").await, Err(Error::TooManyWebhooks(3))));
    assert!(view(&store, &made).document("4").await.unwrap().is_none(), "nothing of it is stored");
    store.record_applied(made.generation.id, 3, 3.0).await.unwrap();
    claim(&store, 3.0).await;
    store.finish_webhook("2", 1, WebhookOutcome::Delivered, 4.0).await.unwrap();
    accept("5").await.unwrap();
    assert!(store.prune(made.id, kept(9, 1)).await.unwrap());
    let (jobs, _) = store.jobs(&Caller::system(), 9, None).await.unwrap();
    let ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(ids, ["5", "3", "1"], "jobs are kept whose webhooks are open");
    close_sound(store).await;
}
