//! UDP sockets: batched receive and batched send.
