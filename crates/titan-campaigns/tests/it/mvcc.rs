use titan_campaigns::Run;
use titan_campaigns::mvcc::Mvcc;

#[test]
fn histories_of_versions_are_as_the_model_says() {
    let run = Run::once(1);
    let small = Mvcc {
        operations: 100_000,
        rounds: 1,
    };
    small.run(&run);
    run.finish(100_000);
}
