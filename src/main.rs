use hta::read::{source::*, load::*, kineto::event::LoadOptions};
fn main(){
    let t=std::time::Instant::now();
    let all = std::env::var("ALL").is_ok();
    for a in std::env::args().skip(1) {
        let input=Input{path:a.clone().into(),shown:a.clone(),named:true};
        match load(&input, LoadOptions{event_args: std::env::var("EV").is_ok(), ..Default::default()}, if all {Spread::AllCores} else {Spread::Inline}, &Default::default()) {
            Ok(l)=>{ println!("{a}: {} events {} bytes {} strings {:?}", l.columns.len(), l.unpacked_bytes, l.columns.strings.len(), l.meta.era);
              for (c,t) in l.columns.health.iter() { println!("   {} {} {:?} {}", c.spec().name, t.count, t.first_byte, t.example); } }
            Err(e)=>println!("ERR {e}"),
        }
    }
    eprintln!("{:?}", t.elapsed());
}
