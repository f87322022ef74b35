use super::*;

#[test]
fn initialize_answers_as_the_generation_of_the_cli() {
    for (newest, sse) in [(true, true), (false, false)] {
        let answer = initialized(&json!({ "protocolVersion": 1 }), newest);
        assert_eq!(answer["agentCapabilities"]["mcpCapabilities"]["sse"], sse);
        assert_eq!(answer["agentCapabilities"]["loadSession"], true);
        assert_eq!(answer["agentCapabilities"]["promptCapabilities"]["image"], true);
        assert_eq!(answer["agentCapabilities"]["promptCapabilities"]["audio"], false);
        assert_eq!(answer["protocolVersion"], 1);
    }
}
