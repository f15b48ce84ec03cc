//! The proxy between a real client and a real origin on loopback, in one runtime.
//!
//! The client is hyper over rustls, or a raw socket; so is the origin, which counts what reaches it.
//! Every denial asks three witnesses: what the client got, what the origin saw, what was recorded.

mod bodies;
mod capture;
mod crowded;
mod cut;
mod deadlines;
mod denials;
mod early;
mod flooded;
mod frames;
mod framing;
mod grpc;
mod half_closed;
mod held;
mod interim;
mod lab;
mod limits;
mod meant;
mod memory;
mod pairs;
mod pings;
mod places;
mod reflection;
mod refused;
mod requests;
mod secrets;
mod sharing;
mod signing;
mod smuggling;
mod standing;
mod threads;
mod unread;
mod unread_by_origin;
mod websocket;
