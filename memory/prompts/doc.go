// Package prompts improves prompts based on conversations that used them.
//
// An [Optimizer] rewrites a [Prompt] if past conversations and feedback, its trajectories,
// give a reason to. It preserves {variables} and returns a reason and a diff with each new
// prompt. Package memory keeps a prompt in a store, so that running agents use a new
// version immediately; see memory.Instructions.
package prompts
