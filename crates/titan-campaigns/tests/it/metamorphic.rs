use titan_campaigns::Run;
use titan_campaigns::metamorphic::Metamorphic;

#[test]
fn configurations_cannot_be_told_apart() {
    let run = Run::once(1);
    let small = Metamorphic {
        lists: 3,
        operations: 2000,
        ..Metamorphic::default()
    };
    small.run(&run);
    run.finish(150_000);
}
