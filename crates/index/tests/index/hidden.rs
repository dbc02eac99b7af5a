//! Documents that a mandatory filter hides: whole results are the same as if they were not stored.

use std::sync::Arc;

use weir_filter::Filter;
use weir_index::{
    Change, FacetSpec, FusionFunction, Grouping, IndexError, IndexQuery, IndexResult, IndexedDocument,
    LexicalSettings, SortKey, StageTimings,
};
use weir_policy::Caller;
use weir_query::Query;
use weir_ranking::RetrievalMode;
use weir_text::Language;

use crate::sample::*;

/// Own documents: enough for statistics of their embeddings.
const OWN: usize = 40;
/// Hidden documents: enough for codes of all embeddings.
const HIDDEN: usize = 3_000;
/// Terms of one hidden document: more than a prefix, or a wildcard, may scan of a caller's own.
const HIDDEN_TERMS: usize = 210_000;

fn tenant(name: &str) -> Caller {
    let filter = Filter::parse(&format!(r#"{{"tenant":"{name}"}}"#)).unwrap();
    Caller { filter: Some(Arc::new(filter)), ..Caller::system() }
}

fn put_of(
    tenant: &str,
    id: &str,
    title: Option<&str>,
    text: &str,
    more: &str,
    embedding: Vec<f32>,
) -> Change {
    let metadata = format!(r#"{{"tenant":"{tenant}"{more}}}"#);
    let title = title.map(str::to_owned);
    Change::Put(IndexedDocument { title, metadata, ..document(id, 1, &[(text, embedding)]) })
}

fn around(number: usize, step: f32) -> Vec<f32> {
    let angle = number as f32 * step;
    vec![angle.cos(), angle.sin(), (number % 3) as f32 * 0.1, 0.2]
}

fn own_documents() -> Vec<Change> {
    let mut all = vec![
        put_of(
            "a",
            "contract",
            Some("Contract of lease"),
            "contoso sluice and weir, qqown",
            r#","year":2020"#,
            around(3, 0.1),
        ),
        put_of(
            "a",
            "weir-dam",
            Some("Weir"),
            "the weir holds back the river and the sluice lets it through",
            r#","year":2021"#,
            around(5, 0.1),
        ),
    ];
    all.extend((2..OWN).map(|number| {
        let text = format!("river number {number}, stone and water {}", "flows slowly ".repeat(number % 7));
        put_of(
            "a",
            &format!("own{number}"),
            Some("A river"),
            &text,
            r#","year":2022,"kind":"note""#,
            around(number, 0.05),
        )
    }));
    all
}

fn hidden_documents() -> Vec<Change> {
    let mut all: Vec<Change> = (0..HIDDEN)
        .map(|number| {
            let text = format!(
                "contoso slucie sluices weird river qq{number}x stones contosa {}",
                "water ".repeat(number % 40)
            );
            let title = format!("Weir {number} of the contract");
            put_of(
                "b",
                &format!("weir {number}"),
                Some(&title),
                &text,
                r#","codename":"x","year":2020"#,
                around(number, 0.002),
            )
        })
        .collect();
    let terms: Vec<String> = (0..HIDDEN_TERMS).map(|number| format!("qq{number:06}zz")).collect();
    all.push(put_of("b", "terms", None, &terms.join(" "), "", around(1, 1.0)));
    all
}

/// Indexes of the own documents: alone, and among hidden ones.
fn indexes() -> [Index; 2] {
    let alone = Index::new(settings());
    alone.apply(own_documents(), 1);
    let among = Index::new(settings());
    let mut hidden = hidden_documents();
    let later = hidden.split_off(HIDDEN / 2);
    among.apply(hidden, 1);
    among.apply(own_documents(), 2);
    among.apply(later, 3);
    [alone, among]
}

fn parsed(mode: RetrievalMode, text: &str) -> IndexQuery {
    let embedding = (mode != RetrievalMode::Lexical).then(|| around(4, 0.1));
    let query = weir_query::parse(text).ok();
    IndexQuery { count: true, explain: true, ..IndexQuery::new(mode, query, embedding, 10) }
}

fn queries() -> Vec<IndexQuery> {
    let texts = [
        "contoso",
        "river stone water",
        "weir",
        "contract of lease",
        "slucie",
        "sluicce river",
        "contosso",
        "weirr",
        "qq*",
        "qq?wn",
        "*own",
        "q*own",
        "we* ri*",
        "\"the river\" weir",
        "river -stone",
        "+river water",
        "title:weir",
        "codename:x river",
        "kind:note water",
        "title:weirr",
        "stome",
        "riverr stonne watter",
        "nothing",
        "weir dam",
    ];
    let modes = [RetrievalMode::Lexical, RetrievalMode::Dense, RetrievalMode::Hybrid];
    let mut all: Vec<IndexQuery> =
        texts.iter().flat_map(|text| modes.map(|mode| parsed(mode, text))).collect();
    let words = |text: &str| Some(Query::Words(text.to_owned()));
    let base = || parsed(RetrievalMode::Hybrid, "river stone water");
    let lexical = || parsed(RetrievalMode::Lexical, "river stone water");
    let facet = |field: &str| FacetSpec { field: field.to_owned(), limit: 10 };
    let by = |field: &str| SortKey { field: field.to_owned(), descending: true };
    for text in ["qq", "wei", "river wa", "weir 1", "contract o", "sluic"] {
        all.push(IndexQuery { is_unfinished: true, query: words(text), ..lexical() });
    }
    let synonyms = [("brook".to_owned(), vec!["river".to_owned(), "flows slowly".to_owned()])].into();
    let weighted = Arc::new(LexicalSettings::new(Language::English, &synonyms, None, 2.5));
    all.extend([
        IndexQuery { query: None, embedding: None, ..base() },
        IndexQuery { query: None, embedding: None, sort: vec![by("year")], ..base() },
        IndexQuery { facets: vec![facet("year"), facet("tenant")], exact_facets: true, ..base() },
        IndexQuery { facets: vec![facet("year")], ..lexical() },
        IndexQuery { sort: vec![by("year")], limit: 50, ..lexical() },
        IndexQuery { group_by: Grouping::Chunk, ..base() },
        IndexQuery { group_by: Grouping::Field("year".to_owned()), ..base() },
        IndexQuery { collapse: true, diversity: 0.3, ..base() },
        IndexQuery { fusion: FusionFunction::ReciprocalRank { k: 60.0, lexical: 0.5, dense: 0.5 }, ..base() },
        IndexQuery { smoothing: false, depth: 5, limit: 40, ..base() },
        IndexQuery { trace: Some("weir 1".to_owned()), ..base() },
        IndexQuery { trace: Some("own7".to_owned()), ..base() },
        IndexQuery { lexical: Arc::clone(&weighted), query: words("brook weir"), ..lexical() },
        IndexQuery { lexical: weighted, query: words("brook weir"), ..base() },
    ]);
    for filter in [r#"{"year":{"gte":2021}}"#, r#"{"kind":"note"}"#, r#"{"tenant":{"ne":"b"}}"#] {
        all.push(IndexQuery { filter: Some(Filter::parse(filter).unwrap()), ..base() });
    }
    for field in ["codename", "missing"] {
        let filter = Filter::parse(&format!(r#"{{"{field}":"x"}}"#)).unwrap();
        all.push(IndexQuery { filter: Some(filter), ..base() });
        all.push(IndexQuery { sort: vec![by(field)], ..base() });
        all.push(IndexQuery { facets: vec![facet(field)], ..base() });
        all.push(IndexQuery { group_by: Grouping::Field(field.to_owned()), ..base() });
        let strict = Some(weir_query::parse(&format!("{field}:x river")).unwrap());
        all.push(IndexQuery { query: strict, strict: true, ..base() });
    }
    all
}

/// The result without what no reply shows: times, and the operation that cursors keep.
fn shown(result: Result<IndexResult, IndexError>) -> Result<IndexResult, String> {
    let result = result.map_err(|error| error.to_string())?;
    Ok(IndexResult { applied_seq: 0, timings: StageTimings::default(), ..result })
}

#[test]
fn results_are_the_same_with_and_without_hidden_documents() {
    let [alone, among] = indexes();
    let check = |what: &str| {
        for query in queries() {
            let results = [&alone, &among].map(|index| shown(index.engine.search(&tenant("a"), &query)));
            assert_eq!(results[0], results[1], "{what}: {query:?}");
        }
    };
    check("before merges");
    among.engine.flush().unwrap();
    check("after merges");
    // the hidden tenant teaches nothing either
    let found = among.search(&parsed(RetrievalMode::Hybrid, "river stone"));
    let voter = weir_ranking::relevance::Voter::Operator;
    let vote = weir_ranking::relevance::JudgedHit {
        features: found.hits[0].features.unwrap(),
        is_relevant: false,
        weight: 1.0,
        voter,
    };
    let learned = weir_ranking::relevance::LearnedRelevance::of(&[vote; 100], 1.0);
    among.engine.set_learned_relevance(Arc::new(learned));
    assert_ne!(among.search(&parsed(RetrievalMode::Hybrid, "river stone")).hits, found.hits);
    check("after votes");
    for (index, seq) in [(&alone, 10), (&among, 10)] {
        index.apply(
            vec![remove("own9"), put_of("a", "own8", None, "a changed river", "", around(2, 0.3))],
            seq,
        );
    }
    assert!(among.engine.remove_now("weir 5", 11).unwrap());
    check("after changes of own documents");
}

#[test]
fn what_is_searched_exists_for_the_caller() {
    let [_, among] = indexes();
    let search = |query: &IndexQuery| among.engine.search(&tenant("a"), query).unwrap();
    let found = |text: &str| names(&search(&parsed(RetrievalMode::Lexical, text)).hits);
    for text in ["qq*", "qqo*", "qq?wn", "q*own", "qq*wn"] {
        assert_eq!(found(text), "contract.0", "{text}");
    }
    let unfinished = IndexQuery { is_unfinished: true, ..parsed(RetrievalMode::Lexical, "qq") };
    assert_eq!(names(&search(&unfinished).hits), "contract.0");
    let corrected = search(&parsed(RetrievalMode::Lexical, "slucie")).corrections;
    assert_eq!(
        (corrected[0].word.as_str(), &corrected[0].replacements),
        ("slucie", &vec!["sluice".to_owned()])
    );
    let explained = search(&parsed(RetrievalMode::Lexical, "contoso"));
    assert_eq!(explained.hits[0].explanation.as_ref().unwrap().terms[0].chunks, 1);
    assert_eq!((explained.existing_chunks, explained.shown_seq), (OWN as u64, 1));
    let named = search(&IndexQuery { is_unfinished: true, ..parsed(RetrievalMode::Lexical, "weir ") });
    assert_eq!(named.hits[0].document_id, "weir-dam");
    let unknown = IndexQuery {
        filter: Some(Filter::parse(r#"{"codename":"x"}"#).unwrap()),
        ..parsed(RetrievalMode::Lexical, "river")
    };
    let error = among.engine.search(&tenant("a"), &unknown).unwrap_err().to_string();
    assert_eq!(error, "no document has the field `codename`; use one of: kind, tenant, year");
    // a caller without documents
    let nobody =
        shown(among.engine.search(&tenant("c"), &parsed(RetrievalMode::Hybrid, "river qq*"))).unwrap();
    assert_eq!((nobody.hits.len(), nobody.existing_chunks, nobody.shown_seq), (0, 0, 0));
}

/// Where own chunks lie among segments depends on hidden ones, and on merges.
#[test]
fn a_completion_is_found_in_whatever_segments_its_chunks_are() {
    let index = Index::new(text_only());
    let put = |number: usize, text: &str| {
        let mut change = put_text(&format!("own{number}"), 1, text);
        if let Change::Put(document) = &mut change {
            document.metadata = r#"{"tenant":"a"}"#.to_owned();
        }
        change
    };
    index.apply((0..20).map(|number| put(number, "a gauge on its gaugeboard")).collect(), 1);
    index.apply(vec![put(20, "the gaugeboard alone")], 2);
    let request = IndexQuery { is_unfinished: true, limit: 50, ..lexical("gau") };
    let found = || index.engine.search(&tenant("a"), &request).unwrap().hits.len();
    assert_eq!(found(), 21);
    index.engine.flush().unwrap();
    assert_eq!(found(), 21, "after a merge");
}

/// Blocks of postings are not skipped by maximum scores that hold for other lengths.
#[test]
fn the_best_of_many_own_documents_are_found_among_longer_hidden_ones() {
    let index = Index::new(text_only());
    let put = |tenant: &str, number: usize, text: String| {
        let mut change = put_text(&format!("{tenant}{number}"), 1, &text);
        if let Change::Put(document) = &mut change {
            document.metadata = format!(r#"{{"tenant":"{tenant}"}}"#);
        }
        change
    };
    // own texts are short, with the word once; hidden ones are long, with the word often
    let all = (0..4_000).map(|number| match number % 2 {
        0 => put("a", number, format!("weir{}", " stone".repeat(2 + (number * 7) % 11))),
        _ => put("b", number, format!("{}{}", "weir ".repeat(6), "dam ".repeat(300))),
    });
    index.apply(all.collect(), 1);
    let request = |limit| IndexQuery { limit, depth: limit, ..lexical("weir stone") };
    let hits = |limit| {
        let found = index.engine.search(&tenant("a"), &request(limit)).unwrap().hits;
        found.into_iter().map(|hit| (hit.document_id, hit.score)).collect::<Vec<_>>()
    };
    let all = hits(2_000);
    assert_eq!(all.len(), 2_000);
    assert!(all.is_sorted_by(|one, next| one.1 >= next.1));
    for limit in [1, 10, 100] {
        assert_eq!(hits(limit), all[..limit], "{limit}");
    }
}
