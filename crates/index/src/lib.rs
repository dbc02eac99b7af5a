//! The searchable state of a collection: lexical and dense legs, fusion, the Engine.
