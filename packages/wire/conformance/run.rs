//! Run the vectors of this folder against a parser in Rust. README.md describes them.
//!
//! It runs the kinds sse, partial_json and inputs, accepts the conventions under `also`, and compares all aspects but
//! `changes`. It needs serde_json with the features `float_roundtrip` and `raw_value`:
//!
//!     let (differences, cases) = run("conformance", "partial_json", &["lone_surrogates"], read)?;

use serde_json::{value::RawValue, Map, Value};
use std::{collections::HashMap, error::Error, fs, path::Path};

type Object = Map<String, Value>;

/// Return all differences, and the number of cases that the parser supports.
///
/// `reader` gets the pieces of a text in order; those of partial_json are UTF-8. An infinite number in its answer is
/// `{"$number": "1e400"}`, as in the vectors. Fails if there are no vectors.
pub fn run<R>(folder: &str, kind: &str, lacks: &[&str], mut reader: R) -> Result<(Vec<String>, usize), Box<dyn Error>>
where
    R: FnMut(&[&[u8]]) -> Result<Value, String>,
{
    let text = fs::read_to_string(Path::new(folder).join(format!("{kind}.json")))?;
    let file: HashMap<&str, &RawValue> = serde_json::from_str(&text)?;
    let (mut differences, mut cases) = (Vec::new(), 0);
    for raw in serde_json::from_str::<Vec<&RawValue>>(file["cases"].get())? {
        // A case with half of a surrogate pair cannot be read here, as no string of Rust has one.
        match serde_json::from_str(raw.get()).map(plain) {
            Ok(Value::Object(one)) if !needs(&one, lacks) => {
                compared(&mut reader, kind, &one, lacks, &mut differences);
                cases += 1;
            }
            _ => {}
        }
    }
    Ok((differences, cases))
}

/// Run a case as given, one byte (or character) at a time, and at once.
fn compared<R>(reader: &mut R, kind: &str, one: &Object, lacks: &[&str], differences: &mut Vec<String>)
where
    R: FnMut(&[&[u8]]) -> Result<Value, String>,
{
    let id = one["id"].as_str().unwrap();
    let all: Vec<&Object> = one["steps"].as_array().unwrap().iter().filter_map(Value::as_object).collect();
    let (end, steps) = all.split_last().unwrap();
    let feeds: Vec<Vec<u8>> = steps.iter().map(|step| bytes(step)).collect();
    let fine = |feed: &[u8]| match std::str::from_utf8(feed) {
        _ if feed.is_empty() => vec![Vec::new()],
        Ok(text) if kind == "partial_json" => text.chars().map(|one| one.to_string().into_bytes()).collect(),
        _ => feed.iter().map(|&byte| vec![byte]).collect(),
    };
    let joint = [joined(steps.iter().map(|&step| step)), (*end).clone()];
    let mut cuttings = vec![
        ("as given", feeds.iter().map(|feed| vec![feed.clone()]).collect::<Vec<_>>(), all.clone()),
        ("one by one", feeds.iter().map(|feed| fine(feed)).collect(), all.clone()),
    ];
    if !steps.is_empty() && one["expect"]["outcome"] != "invalid" {
        // At once, a parser may show nothing of a fragment that is wrong.
        cuttings.push(("at once", vec![vec![feeds.concat()]], joint.iter().collect()));
    }
    for (name, groups, steps) in cuttings {
        let pieces: Vec<&[u8]> = groups.iter().flatten().map(Vec::as_slice).collect();
        let mut compare = |place: String, expected: &Object, got: &Object| {
            for (aspect, right) in expected.iter().filter(|(aspect, _)| *aspect != "changes") {
                let also = expected.get("also").and_then(|also| also[aspect].as_array()).into_iter().flatten();
                match got.get(aspect) {
                    Some(answer) if answer != right && !also.into_iter().any(|one| one == answer) => {
                        differences.push(format!("{id}: {aspect} {place}, expected {right}, got {answer}"))
                    }
                    _ => {}
                }
            }
        };
        match reader(&pieces).map(plain) {
            Err(error) => differences.push(format!("{id}: error {name}, {error}")),
            Ok(answer) => {
                let mut answered = answer["steps"].as_array().into_iter().flatten().filter_map(Value::as_object);
                let counts = groups.iter().map(Vec::len).chain([1]);
                for (at, (step, count)) in steps.iter().zip(counts).enumerate() {
                    let empty = Object::new();
                    let own: Vec<&Object> = (0..count).map(|_| answered.next().unwrap_or(&empty)).collect();
                    if !needs(step, lacks) {
                        compare(format!("{name} step {at}"), step, &joined(own.into_iter()));
                    }
                }
                compare(name.to_string(), one["expect"].as_object().unwrap(), answer.as_object().unwrap());
            }
        }
    }
}

/// Return several steps as one: the last value and state, and all lists in order.
fn joined<'a>(steps: impl Iterator<Item = &'a Object>) -> Object {
    let mut whole = Object::new();
    for (key, item) in steps.flatten() {
        match (whole.get_mut(key), item) {
            (Some(Value::Array(before)), Value::Array(list)) if key != "value" && key != "needs" => {
                before.extend(list.clone())
            }
            _ => drop(whole.insert(key.clone(), item.clone())),
        }
    }
    whole
}

fn needs(part: &Object, lacks: &[&str]) -> bool {
    part.get("needs").and_then(Value::as_array).into_iter().flatten().any(|one| lacks.contains(&one.as_str().unwrap()))
}

/// Return a value whose finite numbers are all doubles, so that 1 equals 1.0.
fn plain(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::from(number.as_f64().unwrap()),
        Value::Array(items) => items.into_iter().map(plain).collect(),
        Value::Object(object) => match object.get("$number").and_then(|text| text.as_str()?.parse::<f64>().ok()) {
            Some(double) if double.is_finite() => Value::from(double),
            _ => object.into_iter().map(|(key, item)| (key, plain(item))).collect(),
        },
        other => other,
    }
}

/// Return the bytes of a step: a text, or base64 if they are none.
fn bytes(step: &Object) -> Vec<u8> {
    if let Some(text) = step.get("feed").and_then(Value::as_str) {
        return text.as_bytes().to_vec();
    }
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut found, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in step["base64"].as_str().unwrap().bytes().filter_map(|one| letters.iter().position(|&it| it == one)) {
        (bits, count) = (bits << 6 | digit as u32, count + 6);
        if count >= 8 {
            count -= 8;
            found.push((bits >> count) as u8);
        }
    }
    found
}
