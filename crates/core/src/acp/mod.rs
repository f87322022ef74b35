//! `cursor-agent acp`: JSON-RPC over the child's standard input and output.
