//! One GET with reqwest, as an ordinary Rust program would write it; run inside a sandbox by the tests.
//!
//! `reqwest-get straight|by-proxy URL`. Leaves roots and proxy to what reqwest finds by itself.

use std::{env, process::ExitCode};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = env::args().collect();
    let [_, way, url] = words.as_slice() else {
        eprintln!("usage: reqwest-get straight|by-proxy URL");
        return ExitCode::FAILURE;
    };
    match get(way == "straight", url).await {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

async fn get(straight: bool, url: &str) -> reqwest::Result<String> {
    let builder = reqwest::Client::builder();
    let builder = if straight {
        builder.no_proxy()
    } else {
        builder
    };
    let response = builder.build()?.get(url).send().await?.error_for_status()?;
    let version = response.version();
    Ok(format!("{version:?} {}", response.text().await?))
}
