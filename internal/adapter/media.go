package adapter

import (
	"cmp"
	"encoding/base64"
	"slices"

	"github.com/treadle-go/treadle/llm"
)

// UserMedia is a conversation for an API that accepts media only from users, although
// some models write images.
type UserMedia struct {
	Messages llm.Messages
	origin   []int // indexes in the original conversation; see At
	// dropped is the first block that is in no message, and from is its author.
	dropped string
	from    any
}

// MoveMedia moves the images of AI messages to user messages, each directly after the AI
// message and its tool results, and drops all other media of AI messages, as well as AI
// messages that consist of media. keep, which may be nil, reports whether a block of a
// message stays; it also decides on the output of OpenAI's image generation, which is an
// image to other providers. Images are moved if sendable accepts them, and if the model
// reads images: because reads is set, or because other messages contain images, which the
// API rejects otherwise.
func MoveMedia(history llm.Messages, reads bool, keep func(*llm.Message, llm.Block) bool, sendable func(llm.Block) bool) *UserMedia {
	u := &UserMedia{Messages: history}
	if !slices.ContainsFunc(history, hasOutput) {
		return u
	}
	reads = reads || slices.ContainsFunc(history, func(m llm.Message) bool { return m.Role != llm.RoleAI && has(m, isImage) })
	u.Messages, u.origin = make(llm.Messages, 0, len(history)+1), make([]int, 0, len(history)+1)
	var images []llm.Block // not yet in a message
	at := 0                // their origin
	flush := func() {
		if len(images) > 0 {
			u.Messages = append(u.Messages, llm.User("From the assistant:", images...))
			u.origin, images = append(u.origin, ^at), nil
		}
	}
	for i, m := range history {
		if m.Role != llm.RoleTool {
			flush()
		}
		if hasOutput(m) {
			var blocks []llm.Block
			for _, b := range m.Blocks {
				std := standard(b)
				image := generated(std)
				switch {
				case !isMedia(image) || keep != nil && keep(&m, std):
					blocks = append(blocks, b)
				case reads && isImage(image) && sendable(image):
					images, at = append(images, image), i
				case u.dropped == "":
					u.dropped, u.from = image.Type, m.Metadata["model_provider"]
				}
			}
			m.Blocks = blocks
			if len(m.ToolCalls) == 0 && !has(m, func(b llm.Block) bool { return b.Type != llm.BlockReasoning }) {
				continue
			}
		}
		u.Messages, u.origin = append(u.Messages, m), append(u.origin, i)
	}
	flush()
	return u
}

// At returns the index in the original conversation of the i-th message, or of the AI
// message whose images it contains.
func (u *UserMedia) At(i int) int {
	switch {
	case u.origin == nil:
		return i
	case u.origin[i] < 0:
		return ^u.origin[i]
	}
	return u.origin[i]
}

// Turn returns the index in Messages of the last message from a user, where the current
// turn starts, or 0.
func (u *UserMedia) Turn() int {
	for i, m := range slices.Backward(u.Messages) {
		if m.Role == llm.RoleHuman && (u.origin == nil || u.origin[i] >= 0) {
			return i
		}
	}
	return 0
}

// Media logs that media of an AI message are not sent.
func (w *Warner) Media(u *UserMedia) {
	if u.dropped != "" {
		w.Once("media", "dropping media of a model's message", "type", u.dropped, "provider", u.from, "model", w.model)
	}
}

// Generation is the type of blocks with the output of OpenAI's image generation.
const Generation = "image_generation_call"

// generated returns the image that OpenAI has generated, or any other block unchanged.
func generated(b llm.Block) llm.Block {
	if b.Type != Generation {
		return b
	}
	result, _ := b.Extra["result"].(string)
	raw, err := base64.StdEncoding.DecodeString(result)
	if err != nil || len(raw) == 0 {
		return b
	}
	format, _ := b.Extra["output_format"].(string)
	return llm.Image("image/"+cmp.Or(format, "png"), raw)
}

// hasOutput reports whether a message is an AI message with media.
func hasOutput(m llm.Message) bool {
	return m.Role == llm.RoleAI && len(m.Blocks) > 0 && has(m, isOutput)
}

// isOutput reports whether a block of an AI message is media.
func isOutput(b llm.Block) bool { return isMedia(b) || b.Type == Generation }

// isMedia reports whether a block is an image, audio, a video, or a file.
func isMedia(b llm.Block) bool {
	return slices.Contains([]string{llm.BlockImage, llm.BlockAudio, llm.BlockVideo, llm.BlockFile}, b.Type)
}

func isImage(b llm.Block) bool { return b.Type == llm.BlockImage }

// has reports whether a message contains a block.
func has(m llm.Message, is func(llm.Block) bool) bool { return slices.ContainsFunc(m.Parts(), is) }

// standard returns a block in the format of package llm.
func standard(b llm.Block) llm.Block {
	if parts := (llm.Message{Blocks: []llm.Block{b}}).Parts(); len(parts) == 1 {
		return parts[0]
	}
	return b
}
