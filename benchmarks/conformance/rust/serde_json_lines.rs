//! serde_json: the verdict on an input that has ended. It reads no text that is still being written.
//!
//! The program speaks the lines of packages/wire/conformance/adapters/program.py.

use serde_json::{error::Category, json, Value};
use std::io::{stdin, BufRead};

fn outcome(text: &str) -> &'static str {
    match serde_json::from_str::<Value>(text).map_err(|error| error.classify()) {
        Ok(_) => "valid",
        Err(Category::Eof) => "incomplete",
        Err(_) => "invalid",
    }
}

fn answer(line: &str) -> Value {
    let asked: Value = match serde_json::from_str(line) {
        Ok(asked) => asked,
        Err(error) => return json!({ "error": error.to_string() }), // half of a surrogate pair is no text here
    };
    if asked["call"] == "hello" {
        return json!({"kinds": ["partial_json"], "lacks": ["infinity", "lone_surrogates"]});
    }
    let fragments = asked["given"].as_array().into_iter().flatten().filter_map(Value::as_str);
    json!({"outcome": outcome(&fragments.collect::<String>())})
}

fn main() {
    for line in stdin().lock().lines() {
        println!("{}", answer(&line.expect("a line")));
    }
}
