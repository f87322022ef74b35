//! The texts and images of a request, for counting.

use super::{Item, Part, TurnRequest};

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
        let images = self.items.iter().flat_map(Item::parts).filter_map(Part::image);
        let images: usize = images.map(|image| image.bytes().len()).sum();
        texts + images + self.items.len() * EACH
    }

    /// How many images it has.
    #[must_use]
    pub fn images(&self) -> usize {
        self.items.iter().flat_map(Item::parts).filter_map(Part::image).count()
    }
}

fn texts(item: &Item) -> Vec<&str> {
    match item {
        Item::Message(_) | Item::ToolResult(_) => {
            item.parts().iter().filter_map(Part::text).collect()
        }
        Item::ToolCall(call) => vec![&call.name, &call.arguments],
        Item::Reasoning(reasoning) => vec![&reasoning.text],
    }
}
