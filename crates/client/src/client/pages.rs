//! Lists that are received page by page.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use weir_api::{List, SearchReply, SearchRequest};

use crate::call::{ApiCall, with_query};
use crate::{Client, ClientError, Result};

/// The parameter that says where the first page starts; on later pages the cursor does.
const AFTER: &str = "after";

/// A list of the API: its path and its parameters.
pub(super) struct Listing {
    pub(super) path: String,
    pub(super) parameters: Vec<(&'static str, Option<String>)>,
}

impl Listing {
    /// The call of one page. `cursor` is the `next_cursor` of the page before.
    pub(super) fn page(&self, cursor: Option<&str>) -> ApiCall {
        let given = self.parameters.iter().filter(|(name, _)| cursor.is_none() || *name != AFTER);
        let cursor = ("cursor", cursor.map(str::to_owned));
        let parameters: Vec<_> = given.cloned().chain([cursor]).collect();
        ApiCall::get(with_query(self.path.clone(), &parameters))
    }
}

/// Where the next page is.
enum Next {
    First,
    At(String),
    End,
}

impl Next {
    /// Takes the cursor of the next request; `None` after the last page. An error of that request ends the list.
    fn take(&mut self) -> Option<Option<String>> {
        match std::mem::replace(self, Next::End) {
            Next::First => Some(None),
            Next::At(cursor) => Some(Some(cursor)),
            Next::End => None,
        }
    }

    /// Where the page after the one with the cursor `before` is. A cursor that leads to itself would never end.
    fn follow(before: Option<&str>, next: Option<&str>, client: &Client) -> Result<Next> {
        match next {
            None => Ok(Next::End),
            Some(next) if before == Some(next) => {
                let reason = "has the cursor of its own page as that of the next".to_owned();
                Err(ClientError::Malformed { url: client.url().to_owned(), reason })
            }
            Some(next) => Ok(Next::At(next.to_owned())),
        }
    }
}

/// A list, of which each page is requested when it is asked for.
pub struct Pages<'a, T> {
    client: &'a Client,
    listing: Listing,
    next: Next,
    items: PhantomData<fn() -> T>,
}

impl<'a, T: DeserializeOwned> Pages<'a, T> {
    pub(super) fn new(client: &'a Client, listing: Listing) -> Pages<'a, T> {
        Pages { client, listing, next: Next::First, items: PhantomData }
    }

    /// The items of the next page; `None` after the last one, and after an error.
    ///
    /// # Errors
    /// Those of the call.
    pub async fn next_page(&mut self) -> Result<Option<Vec<T>>> {
        let Some(cursor) = self.next.take() else { return Ok(None) };
        let page: List<T> = self.client.value(self.listing.page(cursor.as_deref())).await?;
        self.next = Next::follow(cursor.as_deref(), page.next_cursor.as_deref(), self.client)?;
        Ok(Some(page.data))
    }
}

/// The results of a search, of which each page is requested when it is asked for.
pub struct SearchPages<'a> {
    client: &'a Client,
    request: SearchRequest,
    next: Next,
}

impl SearchPages<'_> {
    pub(super) fn new(client: &Client, request: SearchRequest) -> SearchPages<'_> {
        let next = request.cursor.clone().map_or(Next::First, Next::At);
        SearchPages { client, request, next }
    }

    /// The next page; `None` after the last one, and after an error.
    ///
    /// # Errors
    /// Those of [`Client::search`].
    pub async fn next_page(&mut self) -> Result<Option<SearchReply>> {
        let Some(cursor) = self.next.take() else { return Ok(None) };
        self.request.cursor = cursor;
        let page = self.client.search(&self.request).await?.parse()?;
        let cursor = self.request.cursor.as_deref();
        self.next = Next::follow(cursor, page.next_cursor.as_deref(), self.client)?;
        Ok(Some(page))
    }
}
