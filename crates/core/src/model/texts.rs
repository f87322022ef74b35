//! What a request says and has, for counting.

use super::{Image, ImageSource, Item, Part, ToolContent, TurnRequest};

impl TurnRequest {
    /// Every text that the model would read, in order: instructions, tools, conversation.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let system = self.system.iter().map(String::as_str);
        let tools = self.tools.iter().flat_map(|tool| {
            let schema = tool.schema.as_ref().map_or("", |schema| schema.get());
            [tool.name.as_str(), tool.description.as_str(), schema]
        });
        system.chain(tools).chain(self.items.iter().flat_map(texts))
    }

    /// About how many bytes it has in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        /// What holds a text, and what holds that.
        const EACH: usize = 128;
        let texts = self.texts().fold(0, |sum, text| sum + text.len() + EACH);
        let images: usize = self.items.iter().map(images).sum();
        texts + images + self.items.len() * EACH
    }

    /// How many images it has.
    #[must_use]
    pub fn images(&self) -> usize {
        self.items
            .iter()
            .map(|item| match item {
                Item::Message(message) => {
                    message.parts.iter().filter(|part| matches!(part, Part::Image(_))).count()
                }
                Item::ToolResult(result) => result
                    .content
                    .iter()
                    .filter(|content| matches!(content, ToolContent::Image(_)))
                    .count(),
                Item::ToolCall(_) | Item::Reasoning(_) => 0,
            })
            .sum()
    }
}

/// The bytes of its images.
fn images(item: &Item) -> usize {
    match item {
        Item::Message(message) => {
            let images = message.parts.iter().map(|part| match part {
                Part::Text(_) => 0,
                Part::Image(Image { source: ImageSource::Inline { data, .. } }) => data.len(),
            });
            images.sum()
        }
        Item::ToolResult(result) => {
            let images = result.content.iter().map(|content| match content {
                ToolContent::Text(_) => 0,
                ToolContent::Image(_) => content.bytes(),
            });
            images.sum()
        }
        Item::ToolCall(_) | Item::Reasoning(_) => 0,
    }
}

fn texts(item: &Item) -> Vec<&str> {
    match item {
        Item::Message(message) => message
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Image(_) => None,
            })
            .collect(),
        Item::ToolCall(call) => vec![&call.name, &call.arguments],
        Item::ToolResult(result) => result
            .content
            .iter()
            .filter_map(|content| match content {
                ToolContent::Text(text) => Some(text.as_str()),
                ToolContent::Image(_) => None,
            })
            .collect(),
        Item::Reasoning(reasoning) => vec![&reasoning.text],
    }
}
