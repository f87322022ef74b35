use super::*;

#[test]
fn section_2_4_the_missing_tool_is_read_from_the_refusal() {
    for (words, tool) in [
        (
            "Cursor answered: Required tool GET_MCP_TOOLS not found in allTools.",
            Some("get_mcp_tools_tool_call"),
        ),
        ("Required tool X,Y not found in allTools", None),
        ("Something else", None),
    ] {
        assert_eq!(missing_tool(words).as_deref(), tool, "{words}");
    }
}
