//! The wire types: requests, replies, the table of error codes.
