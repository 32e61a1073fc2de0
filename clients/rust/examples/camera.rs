//! The smallest front-end: `cargo run --example camera -- catchment+tcp://127.0.0.1:7100`.

use std::time::Duration;

use catchment_frontend::{Error, Frontend};

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or("catchment+tcp://127.0.0.1:7100".to_owned());
    let camera = Frontend::connect(&url, "camera")?;
    let mut image = vec![0; 10_000];
    for key in 0..1_000 {
        image.fill(key as u8);
        camera.send(key, &image)?;
    }
    let closed = camera.close(Duration::from_secs(10));
    assert!(closed.is_confirmed(), "{closed:?}");
    Ok(())
}
